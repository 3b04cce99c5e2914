//! What a failed request means, for the breaker and for people.

use crate::breaker::Ending;
use crate::http::{Fault, innermost};
use crate::wrap::WrapError;
use ::http::StatusCode;
use hipplan_store::RemoteErrorKind;

/// Hosts that a cloud's own machines ask for credentials.
const CREDENTIAL_HOSTS: [&str; 4] = ["169.254.169.254", "169.254.170.2", "169.254.170.23", "metadata.google.internal"];

/// Why a request gave nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("no answer within {milliseconds} ms")]
    TimedOut { milliseconds: u128 },
    #[error("{0}{advice}", advice = advice(.0))]
    Fault(Fault),
    #[error("the entry takes {found} bytes in the remote, the most for what was asked is {most}")]
    TooLarge { found: u64, most: u64 },
    #[error("the entry is damaged there: {0}")]
    Damaged(WrapError),
    #[error("{found} bytes came, {announced} were announced")]
    Announced { found: u64, announced: u64 },
    #[error("{0}")]
    Other(String),
    /// Of the client, where it knows that the service has no such operation.
    #[error("the service has no such operation")]
    Unsupported,
}

impl Failure {
    /// What `object_store` gave, where that is neither an entry nor its absence.
    pub(crate) fn of_store(error: &object_store::Error) -> Self {
        use object_store::Error as E;
        match (Fault::within(error), error) {
            (Some(fault), _) => Self::Fault(fault.clone()),
            (None, E::NotImplemented { .. } | E::NotSupported { .. }) => Self::Unsupported,
            (None, _) => Self::Other(innermost(error)),
        }
    }

    /// Whether a put would have been taken without its condition.
    pub(crate) fn is_unconditional(&self) -> bool {
        matches!(self, Self::Unsupported | Self::Fault(Fault::Status { status: StatusCode::NOT_IMPLEMENTED, .. }))
    }

    /// For callers.
    pub(crate) fn kind(&self) -> RemoteErrorKind {
        match self {
            Self::TimedOut { .. } | Self::Fault(Fault::ConnectTimeout { .. }) => RemoteErrorKind::Timeout,
            Self::Fault(Fault::Connect { .. } | Fault::NoRoots { .. }) => RemoteErrorKind::Unreachable,
            Self::Fault(Fault::Unencrypted { .. }) => RemoteErrorKind::Refused,
            Self::Fault(Fault::Status { status, .. }) if status.is_client_error() => RemoteErrorKind::Refused,
            Self::TooLarge { .. } | Self::Damaged(WrapError::TooLarge { .. }) => RemoteErrorKind::TooLarge,
            Self::Damaged(_) | Self::Announced { .. } => RemoteErrorKind::Garbled,
            _ => RemoteErrorKind::Other,
        }
    }

    /// What it says of the remote as a whole.
    pub(crate) fn ending(&self) -> Ending {
        match self.kind() {
            RemoteErrorKind::Timeout => Ending::TimedOut,
            RemoteErrorKind::TooLarge => Ending::Neither,
            _ => Ending::Bad,
        }
    }
}

/// What a person can do, for what people run into.
fn advice(fault: &Fault) -> &'static str {
    match fault {
        Fault::ConnectTimeout { host, .. } | Fault::Connect { host, .. } if CREDENTIAL_HOSTS.contains(&host.as_str()) => {
            "; it was asked for credentials since the environment has none"
        }
        Fault::Status { status, .. } if status.is_redirection() => {
            "; redirects are not followed: use the address that it leads to, for S3 the region of the bucket"
        }
        Fault::Status { status: StatusCode::FORBIDDEN, method, .. } if method == ::http::Method::GET => {
            "; where nobody may list a bucket, S3 answers so for an entry that is not there: allow s3:ListBucket"
        }
        Fault::Status { status: StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, .. } => "; check the credentials and what they allow",
        Fault::Status { status: StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED, .. } => {
            "; a web server without WebDAV can only be read"
        }
        Fault::Status { status: StatusCode::NOT_FOUND, .. } => "; make the bucket first, or correct its name",
        Fault::Unencrypted { .. } => "; use https, or set AWS_ALLOW_HTTP, GOOGLE_ALLOW_HTTP or AZURE_ALLOW_HTTP to true",
        Fault::NoRoots { .. } => "; install ca-certificates, or name a file of them in SSL_CERT_FILE",
        _ => "",
    }
}
