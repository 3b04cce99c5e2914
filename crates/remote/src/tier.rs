//! The tier itself: what `hipplan-store` asks.

use crate::address::{Address, Service};
use crate::backend;
use crate::breaker::{Breaker, Ending, Permit};
use crate::error::OpenError;
use crate::failure::Failure;
use crate::http::{Connector, is_this_machine};
use crate::key;
use crate::options::Options;
use crate::request::{self, Shared};
use crate::secrets::Secrets;
use crate::worker::Worker;
use crate::wrap;
use ::http::HeaderValue;
use bytes::Bytes;
use hipplan_store::{EntryKind, RemoteError, RemoteErrorKind, RemoteTier};
use object_store::path::Path;
use std::collections::HashSet;
use std::future::Future;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::task::spawn_blocking;

/// So many names of fetched entries are remembered: half a megabyte.
const REMEMBERED: usize = 8192;
/// How much longer than a request a caller waits for the background thread. It is never needed while that thread runs.
const SLACK: Duration = Duration::from_millis(500);

/// An object store that holds the entries of plan stores.
///
/// It is opened without a word to the server; the first call starts one thread.
#[derive(Debug)]
pub struct Remote {
    name: String,
    prefix: Path,
    shared: Arc<Shared>,
    secrets: Arc<Secrets>,
    worker: Worker,
    /// What this process has got: nobody puts again what was good, so a put of it replaces.
    fetched: Mutex<HashSet<(EntryKind, [u8; 32])>>,
}

impl Remote {
    /// Opens the remote at an address. Credentials and endpoints are taken from `options` and from the environment, as the services' own tools
    /// take them (`AWS_*`, `GOOGLE_*`, `AZURE_*`).
    pub fn open(address: &str, options: Options) -> Result<Self, OpenError> {
        let address = Address::parse(address)?;
        let name = address.url.as_str().trim_end_matches('/').to_owned();
        let secrets = secrets(&options);
        let hide = |error: OpenError| match error {
            OpenError::Settings { name, cause } => OpenError::Settings { name, cause: secrets.hide(&cause) },
            other => other,
        };
        let connector = connector(&address, &name, &options)?;
        let parts = backend::Parts { address: &address, name: &name, settings: &options.settings, connector };
        let store = backend::open(&parts).map_err(hide)?;
        let prefix =
            Path::parse(address.prefix()).map_err(|error| OpenError::Address { why: format!("a prefix that cannot be used: {error}") })?;
        Ok(Self {
            name,
            prefix,
            secrets: Arc::new(secrets),
            worker: Worker::new(),
            fetched: Mutex::default(),
            shared: Arc::new(Shared { store, breaker: Breaker::new(&options), options, unconditional: AtomicBool::new(false) }),
        })
    }

    fn error(&self, kind: RemoteErrorKind, what: &str) -> RemoteError {
        RemoteError { message: self.secrets.hide(&format!("{}: {what}", self.name)), kind }
    }

    /// Asks the breaker; an error where the remote is to be left alone. Nothing is locked before the worker has been claimed.
    fn permit(&self) -> Result<Permit, RemoteError> {
        if self.worker.claim().is_err() {
            let what = "left alone: this process was forked from one that uses it, and has no connection of its own";
            return Err(self.error(RemoteErrorKind::Resting, what));
        }
        match self.shared.breaker.ask(Instant::now()) {
            Permit::Leave => Err(self.left_alone()),
            permit => Ok(permit),
        }
    }

    fn left_alone(&self) -> RemoteError {
        let (reason, left) = self.shared.breaker.reason(Instant::now());
        let seconds = left.as_secs().saturating_add(u64::from(left.subsec_nanos() > 0));
        let what = match seconds {
            0 => "being tried again in the background".to_owned(),
            _ => format!("left alone for {seconds} s more"),
        };
        self.error(RemoteErrorKind::Resting, &format!("{what}, since: {reason}"))
    }

    /// Runs a request in the background and waits for it, at the longest for what `bytes` may take. Nobody waits for a probe.
    fn run<T: Send + 'static>(
        &self,
        permit: Permit,
        bytes: u64,
        work: impl Future<Output = Result<T, Failure>> + Send + 'static,
    ) -> Result<T, RemoteError> {
        let (send, receive) = mpsc::sync_channel(1);
        let settle = self.settle(permit);
        let settle_here = settle.clone();
        let started = self.worker.spawn(async move {
            let result = work.await;
            settle.book(result.as_ref().err());
            // It is not received where nobody waits.
            let _ = send.send(result);
        });
        let longest = self.shared.options.longest(bytes).saturating_add(SLACK);
        let failure = match started {
            Err(error) => Failure::Other(format!("its thread does not start: {error}")),
            Ok(()) if permit == Permit::Probe => return Err(self.left_alone()),
            Ok(()) => match receive.recv_timeout(longest) {
                Ok(Ok(value)) => return Ok(value),
                // The task has booked it.
                Ok(Err(failure)) => return Err(self.error(failure.kind(), &failure.to_string())),
                Err(RecvTimeoutError::Timeout) => Failure::TimedOut { milliseconds: longest.as_millis() },
                Err(RecvTimeoutError::Disconnected) => Failure::Other("the request was dropped".to_owned()),
            },
        };
        settle_here.book(Some(&failure));
        Err(self.error(failure.kind(), &failure.to_string()))
    }

    fn settle(&self, permit: Permit) -> Settle {
        Settle { shared: Arc::clone(&self.shared), secrets: Arc::clone(&self.secrets), permit }
    }

    fn remember(&self, kind: EntryKind, name: &[u8; 32]) {
        let mut fetched = self.fetched.lock().unwrap_or_else(PoisonError::into_inner);
        if fetched.len() >= REMEMBERED {
            fetched.clear();
        }
        fetched.insert((kind, *name));
    }

    fn has_fetched(&self, kind: EntryKind, name: &[u8; 32]) -> bool {
        self.fetched.lock().unwrap_or_else(PoisonError::into_inner).contains(&(kind, *name))
    }
}

impl RemoteTier for Remote {
    fn get(&self, kind: EntryKind, name: &[u8; 32], max: u64) -> Result<Option<Vec<u8>>, RemoteError> {
        let permit = self.permit()?;
        let path = key::path(&self.prefix, kind, name);
        let shared = Arc::clone(&self.shared);
        let got = self.run(permit, wrap::most(max), async move {
            let Some(wrapped) = request::get(&shared, permit, &path, max).await? else { return Ok(None) };
            // Elsewhere, so that other requests and their clocks go on.
            let unwrapped = spawn_blocking(move || wrap::unwrap(&wrapped, max)).await;
            let unwrapped = unwrapped.map_err(|error| Failure::Other(format!("unpacking ended: {error}")))?;
            unwrapped.map(Some).map_err(Failure::Damaged)
        });
        match &got {
            Ok(None) => {}
            Ok(Some(_)) => self.remember(kind, name),
            // Larger than whoever knows its size has asked for: another entry than it should be.
            Err(RemoteError { kind: RemoteErrorKind::Garbled | RemoteErrorKind::TooLarge, .. }) => self.remember(kind, name),
            Err(_) => {}
        }
        got
    }

    fn put(&self, kind: EntryKind, name: &[u8; 32], bytes: &[u8]) -> Result<(), RemoteError> {
        let permit = self.permit()?;
        let path = key::path(&self.prefix, kind, name);
        let only_if_absent = matches!(kind, EntryKind::Blob | EntryKind::Plan) && !self.has_fetched(kind, name);
        let wrapped = match wrap::wrap(bytes) {
            Ok(wrapped) => Bytes::from(wrapped),
            Err(error) => {
                let failure = Failure::Other(format!("not sent: {error}"));
                self.settle(permit).book(Some(&failure));
                return Err(self.error(failure.kind(), &failure.to_string()));
            }
        };
        let shared = Arc::clone(&self.shared);
        self.run(permit, wrapped.len() as u64, async move { request::put(&shared, permit, &path, wrapped, only_if_absent).await })
    }

    fn name(&self) -> &str {
        &self.name
    }
}

/// Books how a request ended, wherever that is known.
#[derive(Debug, Clone)]
struct Settle {
    shared: Arc<Shared>,
    secrets: Arc<Secrets>,
    permit: Permit,
}

impl Settle {
    fn book(&self, failure: Option<&Failure>) {
        let ending = failure.map_or(Ending::Good, Failure::ending);
        let why = || failure.map(|failure| self.secrets.hide(&failure.to_string())).unwrap_or_default();
        self.shared.breaker.settle(self.permit, ending, Instant::now(), why);
    }
}

/// What is secret among what this process was given.
fn secrets(options: &Options) -> Secrets {
    let environment = std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let clouds = ["AWS_", "AZURE_", "GOOGLE_"];
    let mut settings: Vec<(String, String)> = environment.filter(|(name, _)| clouds.iter().any(|cloud| name.starts_with(cloud))).collect();
    settings.extend(options.settings.iter().cloned());
    settings.extend(options.authorization.iter().map(|value| ("authorization".to_owned(), value.clone())));
    Secrets::among(settings.iter().map(|(name, value)| (name.as_str(), value.as_str())))
}

fn connector(address: &Address, name: &str, options: &Options) -> Result<Connector, OpenError> {
    let refuse = |cause: &str| Err(OpenError::Settings { name: name.to_owned(), cause: cause.to_owned() });
    let unencrypted = address.url.scheme() == "http";
    let mut authorization = None;
    if let Some(text) = &options.authorization {
        if address.service != Service::Http {
            return refuse("an authorization header is for plain HTTP servers, expected credentials of the service");
        }
        if unencrypted && !is_this_machine(address.url.host_str().unwrap_or_default()) {
            return refuse("an authorization header would be sent without encryption, expected an https address");
        }
        let Ok(mut value) = HeaderValue::from_str(text) else {
            return refuse("the authorization header has a character in it that no header may have");
        };
        value.set_sensitive(true);
        authorization = Some(value);
    }
    Ok(Connector { connect: options.connect, unencrypted, authorization })
}
