//! Targets that are named on the command line to compile for.

use anyhow::Context;
use hipplan::hip::{HipError, HipRuntime};
use hipplan::{Device, ParseTargetError, Site, Target};

/// A target, or those of the devices that are there.
#[derive(Debug, Clone)]
pub(crate) enum TargetChoice {
    Named(Target),
    Native,
}

impl std::str::FromStr for TargetChoice {
    type Err = ParseTargetError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "native" { Ok(Self::Native) } else { text.parse().map(Self::Named) }
    }
}

impl TargetChoice {
    /// Of each GPU that is there, the target that its runtime reports, with all features.
    fn sites(&self) -> anyhow::Result<Vec<Site>> {
        match self {
            Self::Named(target) => Ok(vec![Site::of(target)]),
            Self::Native => {
                let of_devices = || -> Result<Vec<Site>, HipError> {
                    let runtime = HipRuntime::find()?;
                    let site = |n| {
                        let device = runtime.device(n)?;
                        Ok(Site::Present(Device::Hip(device), device.target().clone()))
                    };
                    (0..runtime.device_count()).map(site).collect()
                };
                of_devices().context("--target native")
            }
        }
    }
}

/// Where is compiled for these, each target once.
pub(crate) fn sites(choices: &[TargetChoice]) -> anyhow::Result<Vec<Site>> {
    let mut sites: Vec<Site> = Vec::new();
    for site in choices.iter().map(TargetChoice::sites).collect::<Result<Vec<_>, _>>()?.into_iter().flatten() {
        // One that is there can do all that one that is only named can.
        match sites.iter_mut().find(|known| known.target() == site.target()) {
            Some(known) if known.device().is_none() => *known = site,
            Some(_) => {}
            None => sites.push(site),
        }
    }
    Ok(sites)
}
