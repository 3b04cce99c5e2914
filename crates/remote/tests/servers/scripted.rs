//! A server that answers each request as a test says, and counts connections.

#![allow(dead_code, clippy::unwrap_used, reason = "every test program uses a part of it, and unwraps as tests do")]

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// What a server does with a request.
pub(crate) enum Answer {
    /// These bytes, and then the end of the connection.
    Bytes(Vec<u8>),
    /// These bytes and then nothing more until the client goes.
    Stall(Vec<u8>),
    /// These bytes again and again until the client goes.
    Endless(Vec<u8>, Vec<u8>),
}

/// A request as it came in.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    /// Request line and headers, in lower case but for the line.
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Request {
    pub(crate) fn method(&self) -> &str {
        self.head.split(' ').next().unwrap()
    }

    pub(crate) fn path(&self) -> &str {
        self.head.split(' ').nth(1).unwrap()
    }
}

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    connections: Arc<AtomicUsize>,
    requests: Arc<Mutex<Vec<Request>>>,
    ended: Arc<AtomicBool>,
}

impl Server {
    /// `answer` gets the number of the request, from 0, and the request.
    pub(crate) fn start(answer: impl Fn(usize, &Request) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server =
            Self { address: listener.local_addr().unwrap(), connections: Arc::default(), requests: Arc::default(), ended: Arc::default() };
        let (connections, requests, ended) = (Arc::clone(&server.connections), Arc::clone(&server.requests), Arc::clone(&server.ended));
        let answer = Arc::new(answer);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if ended.load(Ordering::SeqCst) {
                    return;
                }
                let stream = stream.unwrap();
                connections.fetch_add(1, Ordering::SeqCst);
                let (requests, answer) = (Arc::clone(&requests), Arc::clone(&answer));
                std::thread::spawn(move || serve(stream, &requests, &*answer));
            }
        });
        server
    }

    /// Connections that were made so far.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
    }
}

fn serve(mut stream: TcpStream, requests: &Mutex<Vec<Request>>, answer: &dyn Fn(usize, &Request) -> Answer) {
    let Some(request) = read(&mut stream) else { return };
    let at = {
        let mut requests = requests.lock().unwrap();
        requests.push(request.clone());
        requests.len() - 1
    };
    match answer(at, &request) {
        Answer::Bytes(bytes) => {
            let _ = stream.write_all(&bytes);
            let _ = stream.shutdown(Shutdown::Write);
        }
        Answer::Stall(bytes) => {
            let _ = stream.write_all(&bytes);
        }
        Answer::Endless(first, again) => {
            let mut sent = stream.write_all(&first);
            while sent.is_ok() {
                sent = stream.write_all(&again);
            }
        }
    }
    // Until the client has gone: an earlier end might take away what it has not read yet.
    let _ = std::io::copy(&mut stream, &mut std::io::sink());
}

fn read(stream: &mut TcpStream) -> Option<Request> {
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end;
        }
        match stream.read(&mut piece) {
            Ok(0) | Err(_) => return None,
            Ok(length) => bytes.extend_from_slice(&piece[..length]),
        }
    };
    let text = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let (line, headers) = text.split_once("\r\n").unwrap();
    let head = format!("{line}\r\n{}", headers.to_ascii_lowercase());
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).map_or(0, |length| length.parse().unwrap());
    let mut body = bytes.split_off(end + 4);
    while body.len() < length {
        match stream.read(&mut piece) {
            Ok(0) | Err(_) => return None,
            Ok(length) => body.extend_from_slice(&piece[..length]),
        }
    }
    Some(Request { head, body })
}

/// An answer of a status, with a body of its length.
pub(crate) fn status(line: &str, body: &[u8]) -> Answer {
    Answer::Bytes(message(line, body.len(), body))
}

/// A message whose header says that `length` bytes follow.
pub(crate) fn message(line: &str, length: usize, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 {line}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    [head.as_bytes(), body].concat()
}

/// An address of this machine at which nobody listens: a privileged port of a service that has died out.
pub(crate) fn closed_port() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 1))
}
