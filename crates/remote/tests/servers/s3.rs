//! A real S3 server over a temporary folder.

#![allow(dead_code, clippy::unwrap_used, reason = "every test program uses a part of it, and unwraps as tests do")]

use hyper_util::rt::TokioIo;
use s3s::auth::SimpleAuth;
use s3s::service::S3ServiceBuilder;
use s3s_fs::FileSystem;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use tokio::net::TcpListener;

pub(crate) const KEY: &str = "AKEYOFTHETESTS";
pub(crate) const SECRET: &str = "a-secret-of-the-tests";

pub(crate) struct S3 {
    pub(crate) address: SocketAddr,
    folder: tempfile::TempDir,
    /// Dropping it ends the server.
    _alive: tokio::sync::oneshot::Sender<()>,
}

impl S3 {
    /// With one bucket, `plans`.
    pub(crate) fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("plans")).unwrap();
        let mut builder = S3ServiceBuilder::new(FileSystem::new(folder.path()).unwrap());
        builder.set_auth(SimpleAuth::from_single(KEY, SECRET));
        let service = builder.build();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let (alive, ended) = tokio::sync::oneshot::channel::<()>();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = TcpListener::from_std(listener).unwrap();
                tokio::spawn(async move {
                    while let Ok((socket, _)) = listener.accept().await {
                        let server = hyper::server::conn::http1::Builder::new();
                        let connection = server.serve_connection(TokioIo::new(socket), service.clone());
                        // A client that goes in the middle is its own affair.
                        tokio::spawn(async move { drop(connection.await) });
                    }
                });
                // Until the other side is dropped.
                drop(ended.await);
            });
            runtime.shutdown_background();
        });
        Self { address, folder, _alive: alive }
    }

    /// Settings that lead to it.
    pub(crate) fn settings(&self) -> Vec<(String, String)> {
        settings(self.address, SECRET)
    }

    /// The folder of the bucket.
    pub(crate) fn bucket(&self) -> PathBuf {
        self.folder.path().join("plans")
    }

    /// All files of the bucket, by their paths in it.
    pub(crate) fn files(&self) -> Vec<String> {
        let mut found = Vec::new();
        walk(&self.bucket(), &mut found);
        let bucket = self.bucket();
        let mut files: Vec<String> = found.iter().map(|path| path.strip_prefix(&bucket).unwrap().to_str().unwrap().to_owned()).collect();
        files.sort();
        files
    }
}

/// Settings that lead to a server.
pub(crate) fn settings(address: SocketAddr, secret: &str) -> Vec<(String, String)> {
    let endpoint = format!("http://{address}");
    [("aws_endpoint", endpoint.as_str()), ("aws_region", "us-east-1"), ("aws_access_key_id", KEY), ("aws_secret_access_key", secret)]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .to_vec()
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { walk(&path, found) } else { found.push(path) }
    }
}
