//! The remote store behind all others.

use anyhow::Context;
use hipplan::Store;

/// Where the remote store is.
#[derive(Debug, clap::Args)]
pub(crate) struct RemoteArgs {
    /// Remote store behind all others: s3://, gs://, az://, https:// [default: $HIPPLAN_REMOTE]
    #[arg(long, global = true, value_name = "URL")]
    remote: Option<String>,
}

/// Puts the remote store, if one is named, behind `store`. What the command puts is written there too if it may `write`.
pub(crate) fn behind(args: &RemoteArgs, store: Store, write: bool) -> anyhow::Result<Store> {
    let address = match &args.remote {
        Some(address) => Some(address.clone()),
        None => from_environment("HIPPLAN_REMOTE")?,
    };
    match address.filter(|address| !address.is_empty()) {
        Some(address) => open(&address, store, write).context("remote store"),
        None => Ok(store),
    }
}

/// A variable; none where it is not set.
fn from_environment(name: &str) -> anyhow::Result<Option<String>> {
    match std::env::var(name) {
        Ok(value) => Ok(Some(value)),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(std::env::VarError::NotUnicode(_)) => anyhow::bail!("{name} is no text in UTF-8"),
    }
}

#[cfg(feature = "remote")]
fn open(address: &str, store: Store, write: bool) -> anyhow::Result<Store> {
    use hipplan::remote::{Options, Remote};
    let mut options = Options::default();
    options.authorization = from_environment("HIPPLAN_REMOTE_AUTHORIZATION")?;
    if let Some(seconds) = from_environment("HIPPLAN_REMOTE_PATIENCE")? {
        let patience = seconds.parse().ok().and_then(|seconds| std::time::Duration::try_from_secs_f64(seconds).ok());
        let patience =
            patience.with_context(|| format!("HIPPLAN_REMOTE_PATIENCE is {seconds:?}, expected a number of seconds, such as 2.5"))?;
        options = options.with_patience(patience);
    }
    let remote = Remote::open(address, options)?;
    Ok(store.with_remote(std::sync::Arc::new(remote), hipplan::RemoteOptions { read: true, write }))
}

#[cfg(not(feature = "remote"))]
fn open(_: &str, _: Store, _: bool) -> anyhow::Result<Store> {
    anyhow::bail!("this hipplan was built without it: build with `--features remote`, or leave out --remote and HIPPLAN_REMOTE")
}
