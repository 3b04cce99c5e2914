//! From an address to a client of its service.

use crate::address::{Address, Service};
use crate::error::OpenError;
use crate::http::Connector;
use object_store::{ObjectStore, RetryConfig};
use std::sync::Arc;

/// What every service is opened with.
pub(crate) struct Parts<'a> {
    pub(crate) address: &'a Address,
    pub(crate) name: &'a str,
    pub(crate) settings: &'a [(String, String)],
    pub(crate) connector: Connector,
}

/// None: a request that fails has cost its time already.
fn no_retries() -> RetryConfig {
    RetryConfig { max_retries: 0, ..RetryConfig::default() }
}

pub(crate) fn open(parts: &Parts<'_>) -> Result<Arc<dyn ObjectStore>, OpenError> {
    match parts.address.service {
        Service::S3 => s3(parts),
        Service::Gcs => gcs(parts),
        Service::Azure => azure(parts),
        Service::Http => http(parts),
    }
}

fn wrong(parts: &Parts<'_>, error: impl std::fmt::Display) -> OpenError {
    OpenError::Settings { name: parts.name.to_owned(), cause: error.to_string() }
}

/// Opens a service whose builder takes settings by name: `$key` is the type of those names.
macro_rules! cloud {
    ($function:ident, $feature:literal, $builder:path, $key:path, $from_address:literal) => {
        #[cfg(feature = $feature)]
        fn $function(parts: &Parts<'_>) -> Result<Arc<dyn ObjectStore>, OpenError> {
            use std::str::FromStr;
            type Builder = $builder;
            type Key = $key;
            // The bucket is named by the address alone, whatever stands in the environment.
            let bucket = parts.address.url.host_str().unwrap_or_default();
            let mut builder = Builder::from_env().with_config(Key::from_str($from_address).map_err(|error| wrong(parts, error))?, bucket);
            for (key, value) in parts.settings {
                let key = Key::from_str(key).map_err(|_| wrong(parts, format!("no setting is called `{key}`")))?;
                builder = builder.with_config(key, value);
            }
            let store = builder.with_retry(no_retries()).with_http_connector(parts.connector.clone()).build();
            Ok(Arc::new(store.map_err(|error| wrong(parts, error))?))
        }

        #[cfg(not(feature = $feature))]
        fn $function(parts: &Parts<'_>) -> Result<Arc<dyn ObjectStore>, OpenError> {
            Err(OpenError::NotBuilt { name: parts.name.to_owned(), feature: $feature })
        }
    };
}

cloud!(s3, "aws", object_store::aws::AmazonS3Builder, object_store::aws::AmazonS3ConfigKey, "aws_bucket_name");
cloud!(gcs, "gcp", object_store::gcp::GoogleCloudStorageBuilder, object_store::gcp::GoogleConfigKey, "google_bucket");
cloud!(azure, "azure", object_store::azure::MicrosoftAzureBuilder, object_store::azure::AzureConfigKey, "azure_container_name");

#[cfg(feature = "http")]
fn http(parts: &Parts<'_>) -> Result<Arc<dyn ObjectStore>, OpenError> {
    if let Some((key, _)) = parts.settings.first() {
        return Err(wrong(parts, format!("no setting is called `{key}`")));
    }
    let builder = object_store::http::HttpBuilder::new().with_url(parts.address.url.as_str());
    let store = builder.with_retry(no_retries()).with_http_connector(parts.connector.clone()).build();
    Ok(Arc::new(store.map_err(|error| wrong(parts, error))?))
}

#[cfg(not(feature = "http"))]
fn http(parts: &Parts<'_>) -> Result<Arc<dyn ObjectStore>, OpenError> {
    Err(OpenError::NotBuilt { name: parts.name.to_owned(), feature: "http" })
}
