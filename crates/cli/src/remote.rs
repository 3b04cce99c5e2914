//! The remote store behind all others.

use crate::location;
use anyhow::Context;
use hipplan::{SignaturePolicy, Store};

/// Where the remote store is.
#[derive(Debug, clap::Args)]
pub(crate) struct RemoteArgs {
    /// Remote store behind all others: s3://, gs://, az://, https:// [default: $HIPPLAN_REMOTE]
    #[arg(long, global = true, value_name = "URL")]
    remote: Option<String>,
}

/// Puts the remote store, if one is named, behind `store`. What the command puts is written there too if it may `write`.
///
/// # Errors
/// It cannot be opened, or signatures are required: what comes from there is not signed.
pub(crate) fn behind(args: &RemoteArgs, store: Store, write: bool) -> anyhow::Result<Store> {
    let Some(address) = address(args)? else { return Ok(store) };
    match location::layer_options()?.signatures {
        SignaturePolicy::Off => {}
        SignaturePolicy::Warn => tracing::warn!(
            code = "unsigned",
            advice = "leave out --remote and HIPPLAN_REMOTE, or serve signed bundles with --layer",
            "what comes from the remote store is not signed"
        ),
        SignaturePolicy::Require => anyhow::bail!(
            "HIPPLAN_SIGNATURES is `require`, and what comes from a remote store is not signed: leave out --remote and HIPPLAN_REMOTE and \
             serve signed bundles with --layer, or set HIPPLAN_SIGNATURES to `warn` or `off`"
        ),
    }
    open(&address, store, write).context("remote store")
}

/// Whether one is named.
pub(crate) fn is_named(args: &RemoteArgs) -> anyhow::Result<bool> {
    Ok(address(args)?.is_some())
}

/// The address that is named; without characters, it names nothing.
fn address(args: &RemoteArgs) -> anyhow::Result<Option<String>> {
    let address = match &args.remote {
        Some(address) => Some(address.clone()),
        None => from_environment("HIPPLAN_REMOTE")?,
    };
    Ok(address.filter(|address| !address.is_empty()))
}

/// A variable; none where it is not set, or to nothing.
fn from_environment(name: &str) -> anyhow::Result<Option<String>> {
    match std::env::var(name) {
        Ok(value) => Ok(Some(value).filter(|value| !value.is_empty())),
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
