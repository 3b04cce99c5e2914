//! What can be wrong with opening a remote tier. What can be wrong with a request is `hipplan_store::RemoteError`.

/// A remote tier that cannot be opened. Nothing has been sent yet.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The address cannot be used.
    #[error("the address of the remote store: found {why}")]
    Address {
        /// What was found in it, without anything that may be secret.
        why: String,
    },
    /// This hipplan was built without that service.
    #[error("{name}: this hipplan was built without feature `{feature}` of hipplan-remote")]
    NotBuilt {
        /// The address.
        name: String,
        /// The cargo feature.
        feature: &'static str,
    },
    /// A setting, from the environment or given, is wrong or missing.
    #[error("{name}: {cause}")]
    Settings {
        /// The address.
        name: String,
        /// What is wrong.
        cause: String,
    },
}
