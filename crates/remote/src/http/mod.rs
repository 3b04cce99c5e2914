//! The HTTP client under `object_store`: one connection pool, no redirects, no retries, no proxy, and every answer bounded.

mod answer;
mod fault;

pub(crate) use fault::{Fault, innermost};

use async_trait::async_trait;
use http::header::{AUTHORIZATION, USER_AGENT};
use http::{HeaderValue, Response};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::{Connect, HttpConnector as TcpConnector};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use object_store::ClientOptions;
use object_store::client::{
    ClientConfigKey, HttpClient, HttpConnector, HttpError, HttpRequest, HttpRequestBody, HttpResponse, HttpService,
};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// A connection that nobody has used for this long is closed. Servers close theirs later.
const IDLE: Duration = Duration::from_secs(4);
const IDLE_CONNECTIONS: usize = 8;

/// Makes the clients that `object_store` asks for.
#[derive(Debug, Clone)]
pub(crate) struct Connector {
    pub(crate) connect: Duration,
    /// An address without encryption is what the user has asked for.
    pub(crate) unencrypted: bool,
    pub(crate) authorization: Option<HeaderValue>,
}

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let told = options.get_config_value(&ClientConfigKey::AllowHttp).is_some_and(|value| value == "true");
        let connector = Self { unencrypted: self.unencrypted || told, ..self.clone() };
        Ok(HttpClient::new(Transport { connector, pools: Arc::default() }))
    }
}

/// Pools that are made at the first request: reading the system's certificates takes longer than most requests. Without encryption
/// none are needed, and a small container may have none.
#[derive(Debug, Clone)]
struct Transport {
    connector: Connector,
    pools: Arc<Pools>,
}

#[derive(Debug, Default)]
struct Pools {
    encrypted: OnceLock<Result<Client<HttpsConnector<TcpConnector>, HttpRequestBody>, Fault>>,
    plain: OnceLock<Client<TcpConnector, HttpRequestBody>>,
}

impl Transport {
    async fn send(&self, encrypted: bool, request: HttpRequest) -> Result<Response<Incoming>, Fault> {
        let connect = self.connector.connect;
        let host = request.uri().authority().map(|authority| authority.as_str().to_owned()).unwrap_or_default();
        let answer = if encrypted {
            let pool = self.pools.encrypted.get_or_init(|| Ok(pool(encrypted_connector(connect)?)));
            pool.as_ref().map_err(Clone::clone)?.request(request).await
        } else {
            self.pools.plain.get_or_init(|| pool(tcp_connector(connect))).request(request).await
        };
        answer.map_err(|error| Fault::of_client(&error, host, connect))
    }

    async fn ask(&self, mut request: HttpRequest) -> Result<HttpResponse, Fault> {
        let encrypted = request.uri().scheme_str() == Some("https");
        if !encrypted && !self.connector.unencrypted && !is_this_machine(request.uri().host().unwrap_or_default()) {
            return Err(Fault::Unencrypted { scheme: request.uri().scheme_str().unwrap_or("none").to_owned() });
        }
        let headers = request.headers_mut();
        headers.insert(USER_AGENT, HeaderValue::from_static(concat!("hipplan/", env!("CARGO_PKG_VERSION"))));
        if let Some(authorization) = &self.connector.authorization {
            headers.insert(AUTHORIZATION, authorization.clone());
        }
        let method = request.method().clone();
        answer::sort(method, self.send(encrypted, request).await?).await
    }
}

#[async_trait]
impl HttpService for Transport {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        self.ask(request).await.map_err(Fault::into_http)
    }
}

fn pool<C: Connect + Clone>(connector: C) -> Client<C, HttpRequestBody> {
    let mut builder = Client::builder(TokioExecutor::new());
    builder.pool_timer(TokioTimer::new()).pool_idle_timeout(IDLE).pool_max_idle_per_host(IDLE_CONNECTIONS);
    builder.build(connector)
}

fn tcp_connector(connect: Duration) -> TcpConnector {
    let mut tcp = TcpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(connect));
    tcp
}

fn encrypted_connector(connect: Duration) -> Result<HttpsConnector<TcpConnector>, Fault> {
    let builder = HttpsConnectorBuilder::new()
        .with_provider_and_native_roots(rustls::crypto::ring::default_provider())
        .map_err(|error| Fault::NoRoots { cause: error.to_string() })?;
    Ok(builder.https_only().enable_http1().wrap_connector(tcp_connector(connect)))
}

/// Whether a host name in an address is this machine's own, by its form alone.
pub(crate) fn is_this_machine(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_told_by_its_name() {
        for own in ["localhost", "127.0.0.1", "127.9.9.9", "[::1]", "::1"] {
            assert!(is_this_machine(own), "{own}");
        }
        for other in ["", "localhost.example.com", "127.0.0.1.example.com", "10.0.0.1", "[::2]", "example.com"] {
            assert!(!is_this_machine(other), "{other}");
        }
    }
}
