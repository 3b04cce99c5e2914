//! Addresses of remote tiers.

use crate::error::OpenError;
use url::Url;

/// What kind of service answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Service {
    /// `s3://bucket/prefix`.
    S3,
    /// `gs://bucket/prefix`.
    Gcs,
    /// `az://container/prefix`.
    Azure,
    /// `http://host/path` and `https://host/path`.
    Http,
}

/// An address that has been taken apart.
#[derive(Debug, Clone)]
pub(crate) struct Address {
    pub(crate) service: Service,
    pub(crate) url: Url,
}

impl Address {
    pub(crate) fn parse(text: &str) -> Result<Self, OpenError> {
        // What does not parse is not repeated: there may be a password in it.
        let url = Url::parse(text).map_err(|cause| OpenError::Address { why: format!("not a URL: {cause}") })?;
        let refuse = |why: &str| Err(OpenError::Address { why: why.to_owned() });
        let service = match url.scheme() {
            "s3" | "s3a" => Service::S3,
            "gs" => Service::Gcs,
            "az" | "azure" | "abfs" | "abfss" => Service::Azure,
            "http" | "https" => Service::Http,
            scheme => {
                return refuse(&format!("scheme `{scheme}`, expected one of s3, gs, az, http, https"));
            }
        };
        if !url.username().is_empty() || url.password().is_some() {
            return refuse("a user or a password in it, expected them in the environment: addresses end up in logs");
        }
        if url.query().is_some() || url.fragment().is_some() {
            return refuse("a `?` or `#` in it, expected an address of a folder; what signs requests belongs into the environment");
        }
        if url.host_str().is_none_or(str::is_empty) {
            return refuse("no bucket, container or host in it, expected one, as in s3://bucket/prefix");
        }
        Ok(Self { service, url })
    }

    /// The folder of the bucket below which hipplan's entries lie; of a plain HTTP server the address has it already.
    pub(crate) fn prefix(&self) -> &str {
        match self.service {
            Service::Http => "",
            _ => self.url.path().trim_matches('/'),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_are_told_by_scheme() {
        for (text, service, prefix) in [
            ("s3://bucket", Service::S3, ""),
            ("s3://bucket/team/plans/", Service::S3, "team/plans"),
            ("gs://bucket/plans", Service::Gcs, "plans"),
            ("az://container/plans", Service::Azure, "plans"),
            ("https://host:8443/plans", Service::Http, ""),
        ] {
            let address = Address::parse(text).unwrap();
            assert_eq!((address.service, address.prefix()), (service, prefix), "{text}");
        }
    }

    #[test]
    fn refusals_say_why_and_repeat_no_password() {
        for (text, why) in [
            ("bucket/prefix", "not a URL"),
            ("ftp://host/", "expected one of s3"),
            ("https://user:hunter2@host/", "a user or a password"),
            ("https://hunter2@host/", "a user or a password"),
            ("az://container/x?sig=hunter2", "a `?`"),
            ("https://host/#hunter2", "a `?` or `#`"),
            ("https://host:hunter2/", "not a URL"),
            ("s3:///prefix", "no bucket"),
        ] {
            let error = Address::parse(text).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
            assert!(!error.contains("hunter2"), "{text}: {error}");
        }
    }
}
