//! The remote tier of hipplan's plan store: an object store that many machines share.
//!
//! [`Remote::open`] takes an address (`s3://bucket/prefix`, `gs://`, `az://`, `https://`) and gives a
//! [`RemoteTier`](hipplan_store::RemoteTier), which `Store::with_remote` puts behind all other layers. How entries lie in the bucket, what
//! the tier may cost and who is trusted is written down in `docs/remote.md`.
//!
//! * Calls block, for a bounded time, and may be made from any thread. A remote that is slow, dead or refuses is left alone: see [`Options`].
//! * What comes back is unpacked within limits. That it is what its name says is checked by the store, which asked for it.
//! * No message holds a credential.
#![cfg_attr(
    not(test),
    deny(
        clippy::indexing_slicing,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable,
        reason = "whatever a server answers must not make its reader panic"
    )
)]
#![cfg_attr(
    not(any(feature = "aws", feature = "azure", feature = "gcp", feature = "http")),
    allow(dead_code, reason = "a build without any service opens nothing, and says so")
)]

mod address;
mod backend;
mod breaker;
mod error;
mod failure;
mod http;
mod key;
mod options;
mod request;
mod secrets;
mod tier;
mod worker;
mod wrap;

pub use error::OpenError;
pub use options::Options;
pub use tier::Remote;
