//! What went wrong between this machine and the remote, before anything of it is put into words.
//!
//! These travel inside `object_store`'s errors and are looked for there: its own texts hold addresses with whatever is in them, and the
//! whole of what a server answered.

use http::{Method, StatusCode};
use object_store::client::{HttpError, HttpErrorKind};
use std::error::Error;
use std::io;

#[derive(Debug, Clone, thiserror::Error, PartialEq, Eq)]
pub(crate) enum Fault {
    #[error("no connection to {host} within {milliseconds} ms")]
    ConnectTimeout { host: String, milliseconds: u128 },
    #[error("no connection to {host}: {cause}")]
    Connect { host: String, cause: String },
    #[error("the connection broke: {cause}")]
    Broken { cause: String },
    #[error("{method} was answered with {status}{code}", code = code.as_ref().map(|code| format!(", {code}")).unwrap_or_default())]
    Status { method: Method, status: StatusCode, code: Option<String> },
    #[error("no certificate of this system's can be used to check the server: {cause}")]
    NoRoots { cause: String },
    #[error("an address without encryption, which this remote is not allowed: {scheme}")]
    Unencrypted { scheme: String },
}

impl Fault {
    /// As `object_store` wants it. It is told of none that it could try again.
    pub(crate) fn into_http(self) -> HttpError {
        let kind = match self {
            Self::ConnectTimeout { .. } => HttpErrorKind::Timeout,
            Self::Connect { .. } => HttpErrorKind::Connect,
            _ => HttpErrorKind::Unknown,
        };
        HttpError::new(kind, self)
    }

    /// What a client's error means.
    pub(crate) fn of_client(error: &hyper_util::client::legacy::Error, host: String, connect: std::time::Duration) -> Self {
        let timed_out = causes(error).any(|cause| {
            let io = cause.downcast_ref::<io::Error>();
            io.is_some_and(|io| io.kind() == io::ErrorKind::TimedOut)
        });
        match (error.is_connect(), timed_out) {
            (true, true) => Self::ConnectTimeout { host, milliseconds: connect.as_millis() },
            (true, false) => Self::Connect { host, cause: innermost(error) },
            (false, _) => Self::Broken { cause: innermost(error) },
        }
    }

    /// What an error of a body means.
    pub(crate) fn of_body(error: &hyper::Error) -> Self {
        Self::Broken { cause: innermost(error) }
    }

    /// The fault that an error of `object_store` holds.
    pub(crate) fn within<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a Self> {
        causes(error).find_map(|cause| cause.downcast_ref())
    }
}

/// An error and what it came from.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error| (*error).source())
}

/// What the last one in the chain says: the system's or the TLS library's own words.
pub(crate) fn innermost(error: &(dyn Error + 'static)) -> String {
    causes(error).last().map(ToString::to_string).unwrap_or_default()
}
