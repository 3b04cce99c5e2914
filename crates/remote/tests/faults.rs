//! Servers that are dead, slow, wrong or hostile. What a remote costs is counted in connections, never in time.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod common;
#[path = "servers/scripted.rs"]
mod scripted;

use common::{name, open, unhurried};
use hipplan_remote::{Options, Remote};
use hipplan_store::{EntryKind, RemoteError, RemoteErrorKind, RemoteTier};
use scripted::{Answer, Server, closed_port, message, status};
use std::time::{Duration, Instant};

fn get(remote: &Remote) -> Result<Option<Vec<u8>>, RemoteError> {
    remote.get(EntryKind::Blob, &name(1), 1 << 20)
}

/// Gets until the remote is left alone; how often that took a request, and the last error before.
fn until_left_alone(remote: &Remote) -> (usize, RemoteError) {
    let mut last = None;
    for at in 0..20 {
        match get(remote) {
            Err(error) if error.kind == RemoteErrorKind::Resting => return (at, last.expect("a first failure")),
            Err(error) => last = Some(error),
            Ok(found) => panic!("found {found:?}"),
        }
    }
    panic!("never left alone: {last:?}");
}

/// Options of a test that waits for a timeout.
fn impatient() -> Options {
    let mut options = unhurried();
    options.in_time = Duration::from_millis(50);
    options.patience = Duration::from_millis(100);
    options
}

#[test]
fn a_dead_server_is_asked_three_times_in_a_process() {
    let remote = open(&format!("http://{}", closed_port()), unhurried());
    let (asked, error) = until_left_alone(&remote);
    assert_eq!((asked, error.kind), (3, RemoteErrorKind::Unreachable), "{}", error.message);
    let error = remote.put(EntryKind::Plan, &name(1), b"entry").unwrap_err();
    assert_eq!(error.kind, RemoteErrorKind::Resting);
    assert!(error.message.contains("left alone for ") && error.message.contains("refused"), "{}", error.message);
}

#[test]
fn a_server_that_never_answers_is_asked_once() {
    let server = Server::start(|_, _| Answer::Stall(Vec::new()));
    let remote = open(&server.url(), impatient());
    let (asked, error) = until_left_alone(&remote);
    assert_eq!((asked, error.kind), (1, RemoteErrorKind::Timeout), "{}", error.message);
    for _ in 0..100 {
        assert_eq!(get(&remote).unwrap_err().kind, RemoteErrorKind::Resting);
        assert_eq!(remote.put(EntryKind::Plan, &name(1), b"entry").unwrap_err().kind, RemoteErrorKind::Resting);
    }
    // It may not have been accepted yet.
    let left = Instant::now();
    while server.connections() == 0 && left.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(server.connections(), 1);
}

#[test]
fn all_threads_together_wait_once() {
    let server = Server::start(|_, _| Answer::Stall(Vec::new()));
    let remote = open(&server.url(), impatient());
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..50 {
                    let kind = get(&remote).unwrap_err().kind;
                    assert!(matches!(kind, RemoteErrorKind::Timeout | RemoteErrorKind::Resting), "{kind:?}");
                }
            });
        }
    });
    assert!(server.connections() <= 8, "a thread has waited twice: {} connections", server.connections());
}

#[test]
fn an_answer_that_stalls_counts_by_what_has_come() {
    // Announces a megabyte, which at the rate would be allowed a quarter of an hour, sends a little and then nothing.
    let server = Server::start(|_, _| Answer::Stall(message("200 OK", 1 << 20, &[0; 100])));
    let mut options = impatient();
    options.rate = 1000;
    let (asked, error) = until_left_alone(&open(&server.url(), options));
    assert_eq!((asked, error.kind), (1, RemoteErrorKind::Timeout), "{}", error.message);
}

#[test]
fn errors_of_the_server_are_refusals_or_failures_and_three_are_enough() {
    for (line, kind) in [
        ("400 Bad Request", RemoteErrorKind::Refused),
        ("401 Unauthorized", RemoteErrorKind::Refused),
        ("403 Forbidden", RemoteErrorKind::Refused),
        ("405 Method Not Allowed", RemoteErrorKind::Refused),
        ("429 Too Many Requests", RemoteErrorKind::Refused),
        ("500 Internal Server Error", RemoteErrorKind::Other),
        ("501 Not Implemented", RemoteErrorKind::Other),
        ("503 Service Unavailable", RemoteErrorKind::Other),
        ("204 No Content", RemoteErrorKind::Garbled),
        ("206 Partial Content", RemoteErrorKind::Garbled),
        ("304 Not Modified", RemoteErrorKind::Other),
    ] {
        let server = Server::start(move |_, _| status(line, b""));
        let (asked, error) = until_left_alone(&open(&server.url(), unhurried()));
        assert_eq!((asked, error.kind), (3, kind), "{line}: {}", error.message);
        assert_eq!(server.connections(), 3, "{line}: no request is made twice");
        if !line.starts_with('2') && !line.starts_with("304") {
            assert!(error.message.contains(line.split(' ').next().unwrap()), "{line}: {}", error.message);
        }
    }
}

#[test]
fn a_missing_entry_is_no_failure_and_makes_up_for_some() {
    let server = Server::start(|at, _| if at % 3 == 2 { status("404 Not Found", b"") } else { status("500 Oh", b"") });
    let remote = open(&server.url(), unhurried());
    for at in 0..30 {
        match get(&remote) {
            Ok(None) => assert_eq!(at % 3, 2),
            other => assert_eq!(other.unwrap_err().kind, RemoteErrorKind::Other),
        }
    }
}

#[test]
fn redirects_are_not_followed() {
    let server = Server::start(|_, _| {
        Answer::Bytes(b"HTTP/1.1 302 Found\r\nLocation: /again?sig=hunter2\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_vec())
    });
    let (asked, error) = until_left_alone(&open(&server.url(), unhurried()));
    assert_eq!((asked, server.connections()), (3, 3));
    assert!(error.message.contains("302") && error.message.contains("redirects are not followed"), "{}", error.message);
    assert!(!error.message.contains("hunter2"), "{}", error.message);
}

#[test]
fn garbage_and_truncation_are_errors() {
    let good = {
        let server = Server::start(|_, _| status("201 Created", b""));
        open(&server.url(), unhurried()).put(EntryKind::Selection, &name(1), b"entry").unwrap();
        server.requests()[0].body.clone()
    };
    let cut = good[..good.len() - 3].to_vec();
    let answers: Vec<(&str, Vec<u8>)> = vec![
        ("nothing at all", Vec::new()),
        ("no HTTP", b"\x00\x01\x02\x03 what is this\r\n\r\n".to_vec()),
        ("an endless header", [b"HTTP/1.1 200 OK\r\nX: ".to_vec(), vec![b'x'; 1 << 20]].concat()),
        ("a cut header", b"HTTP/1.1 200 O".to_vec()),
        ("less than announced", message("200 OK", good.len(), &cut)),
        ("a cut entry", message("200 OK", cut.len(), &cut)),
        ("an empty entry", message("200 OK", 0, b"")),
        ("a page", message("200 OK", 27, b"<html>Log in first</html>  ")),
        ("no length", [b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n".to_vec(), good.clone()].concat()),
        ("two lengths", [b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n".to_vec(), good.clone()].concat()),
        ("a length of words", [b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n".to_vec(), good.clone()].concat()),
    ];
    for (what, bytes) in answers {
        let kind = match what {
            "a cut entry" | "an empty entry" | "a page" => RemoteErrorKind::Garbled,
            _ => RemoteErrorKind::Other,
        };
        let server = Server::start(move |_, _| Answer::Bytes(bytes.clone()));
        let (asked, error) = until_left_alone(&open(&server.url(), unhurried()));
        assert_eq!((asked, error.kind), (3, kind), "{what}: {}", error.message);
        assert!(error.message.starts_with(&server.url()), "{what}: {}", error.message);
    }
    let server = Server::start(move |_, _| status("200 OK", &good));
    assert_eq!(get(&open(&server.url(), unhurried())).unwrap().as_deref(), Some(&b"entry"[..]));
}

#[test]
fn too_much_is_not_read() {
    // Announced: refused before anything of it is read.
    let server = Server::start(|_, _| Answer::Endless(message("200 OK", 1 << 40, b""), vec![0; 1 << 16]));
    let error = get(&open(&server.url(), unhurried())).unwrap_err();
    assert_eq!(error.kind, RemoteErrorKind::TooLarge, "{}", error.message);
    assert!(error.message.contains("1099511627776"), "{}", error.message);
    // An error page without end.
    let server = Server::start(|_, _| {
        Answer::Endless(
            b"HTTP/1.1 500 Oh\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec(),
            [b"400\r\n".to_vec(), vec![b'x'; 0x400], b"\r\n".to_vec()].concat(),
        )
    });
    let error = get(&open(&server.url(), unhurried())).unwrap_err();
    assert!(error.kind == RemoteErrorKind::Other && error.message.contains("500"), "{}", error.message);
    assert!(error.message.len() < 300, "what a server says is not repeated: {}", error.message);
}

#[test]
fn a_server_that_is_back_is_used_again_after_one_request_that_nobody_waits_for() {
    let server = Server::start(|at, _| if at < 5 { status("500 Oh", b"") } else { status("404 Not Found", b"") });
    let mut options = unhurried();
    options.cool_down = Duration::from_millis(1);
    options.longest_cool_down = Duration::from_millis(2);
    let remote = open(&server.url(), options);
    let mut failed = 0;
    loop {
        match get(&remote) {
            Ok(None) => break,
            Ok(Some(_)) => panic!("found what is not there"),
            Err(error) if error.kind == RemoteErrorKind::Resting => std::thread::yield_now(),
            Err(_) => failed += 1,
        }
    }
    assert_eq!(failed, 3, "only the first three are waited for");
    // Two probes that failed, one that did not, and the one that was waited for.
    assert_eq!(server.connections(), 7);
}

#[test]
fn a_probe_of_a_put_puts() {
    let server = Server::start(|at, _| if at < 3 { status("500 Oh", b"") } else { status("201 Created", b"") });
    let mut options = unhurried();
    options.cool_down = Duration::from_millis(1);
    options.longest_cool_down = Duration::from_millis(1);
    let remote = open(&server.url(), options);
    while remote.put(EntryKind::Plan, &name(1), b"entry").is_err() {}
    let requests = server.requests();
    assert_eq!(requests.len(), 5);
    assert!(requests.iter().all(|request| request.method() == "PUT" && request.body == requests[0].body));
}

#[test]
fn conditional_puts_and_services_without_them() {
    let settings = |server: &Server| {
        let mut options = unhurried();
        let endpoint = server.url();
        for (key, value) in [("aws_endpoint", endpoint.as_str()), ("aws_skip_signature", "true"), ("aws_region", "x")] {
            options.settings.push((key.into(), value.into()));
        }
        options
    };
    let taken = |requests: &[scripted::Request]| -> Vec<bool> {
        requests.iter().map(|request| request.head.contains("if-none-match: *")).collect()
    };
    // There already: nothing to do.
    for line in ["412 Precondition Failed", "409 Conflict"] {
        let server = Server::start(move |_, _| status(line, b""));
        let remote = open("s3://b", settings(&server));
        remote.put(EntryKind::Blob, &name(1), b"entry").unwrap();
        remote.put(EntryKind::Plan, &name(1), b"entry").unwrap();
        assert_eq!(taken(&server.requests()), [true, true], "{line}");
        // A record has no condition, so that answer makes no sense.
        assert_eq!(remote.put(EntryKind::Selection, &name(1), b"entry").unwrap_err().kind, RemoteErrorKind::Other, "{line}");
    }
    // Not known to the service: put without, and not tried again.
    let server = Server::start(|_, request| {
        if request.head.contains("if-none-match") {
            status("501 Not Implemented", b"<Error><Code>NotImplemented</Code></Error>")
        } else {
            Answer::Bytes(b"HTTP/1.1 200 OK\r\nETag: \"1\"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_vec())
        }
    });
    let remote = open("s3://b", settings(&server));
    remote.put(EntryKind::Blob, &name(1), b"entry").unwrap();
    remote.put(EntryKind::Blob, &name(2), b"entry").unwrap();
    assert_eq!(taken(&server.requests()), [true, false, false]);
}

#[test]
fn a_missing_bucket_is_no_missing_entry() {
    let page = b"<?xml version=\"1.0\"?><Error><Code>NoSuchBucket</Code><Message>hunter2</Message></Error>";
    let server = Server::start(|_, _| status("404 Not Found", page));
    let mut options = unhurried();
    for (key, value) in [("aws_endpoint", server.url().as_str()), ("aws_skip_signature", "true")] {
        options.settings.push((key.into(), value.into()));
    }
    let remote = open("s3://bucket", options);
    for error in [get(&remote).unwrap_err(), remote.put(EntryKind::Blob, &name(1), b"entry").unwrap_err()] {
        assert_eq!(error.kind, RemoteErrorKind::Refused, "{}", error.message);
        assert!(error.message.contains("NoSuchBucket") && error.message.contains("make the bucket"), "{}", error.message);
        assert!(!error.message.contains("hunter2"), "{}", error.message);
    }
}

#[test]
fn folders_are_made_where_a_server_wants_them_and_others_may_make_them_too() {
    let folders = std::sync::Mutex::new(std::collections::HashSet::from(["".to_owned(), "/v1".to_owned()]));
    let server = Server::start(move |_, request| {
        let mut folders = folders.lock().unwrap();
        let (parent, _) = request.path().rsplit_once('/').unwrap();
        match request.method() {
            _ if !folders.contains(parent) => status("409 Conflict", b""),
            "PUT" => status("201 Created", b""),
            // As if another process had just made it.
            "MKCOL" if request.path() == "/v1/blob" && folders.insert("/v1/blob".into()) => status("405 Method Not Allowed", b""),
            "MKCOL" => {
                folders.insert(request.path().to_owned());
                status("201 Created", b"")
            }
            other => panic!("{other}"),
        }
    });
    open(&server.url(), unhurried()).put(EntryKind::Blob, &name(1), b"entry").unwrap();
    let requests = server.requests();
    let asked: Vec<(&str, &str)> = requests.iter().map(|request| (request.method(), request.path())).collect();
    let file = requests[0].path();
    assert_eq!(asked, [("PUT", file), ("MKCOL", "/v1/blob/1f"), ("MKCOL", "/v1/blob"), ("MKCOL", "/v1/blob/1f"), ("PUT", file),]);
}

#[test]
fn gcs_and_azure_are_asked_in_their_own_ways() {
    let server = Server::start(|_, request| match request.method() {
        "PUT" => Answer::Bytes(b"HTTP/1.1 201 Created\r\nETag: \"1\"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_vec()),
        _ => status("404 Not Found", b""),
    });
    let mut options = unhurried();
    options.settings.push((
        "google_service_account_key".into(),
        format!(
            r#"{{"gcs_base_url": "{}", "disable_oauth": true, "client_email": "", "private_key": "", "private_key_id": ""}}"#,
            server.url()
        ),
    ));
    let remote = open("gs://bucket/team", options);
    remote.put(EntryKind::Blob, &name(1), b"entry").unwrap();
    assert_eq!(get(&remote).unwrap(), None);
    let requests = server.requests();
    assert!(requests[0].head.contains("x-goog-if-generation-match: 0"), "{}", requests[0].head);
    assert!(requests[0].path().replace("%2F", "/").starts_with("/bucket/team/v1/blob/1f/2021"), "{}", requests[0].path());

    let server = Server::start(|_, request| match request.method() {
        "PUT" => Answer::Bytes(b"HTTP/1.1 201 Created\r\nETag: \"1\"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_vec()),
        _ => Answer::Bytes(
            b"HTTP/1.1 404 Not\r\nx-ms-error-code: ContainerNotFound\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_vec(),
        ),
    });
    let mut options = unhurried();
    for (key, value) in [
        ("azure_storage_account_name", "account"),
        ("azure_storage_sas_key", "sv=2&sig=hunter2hunter2"),
        ("azure_storage_endpoint", &server.url()),
    ] {
        options.settings.push((key.into(), value.into()));
    }
    let remote = open("az://container/team", options);
    remote.put(EntryKind::Plan, &name(1), b"entry").unwrap();
    let error = get(&remote).unwrap_err();
    assert_eq!(error.kind, RemoteErrorKind::Refused);
    assert!(error.message.contains("ContainerNotFound") && !error.message.contains("hunter2"), "{}", error.message);
    let requests = server.requests();
    assert!(requests[0].head.contains("if-none-match: *"), "{}", requests[0].head);
    assert!(requests[0].path().replace("%2F", "/").contains("/container/team/v1/plan/1f/2021"), "{}", requests[0].path());
    assert!(requests[0].path().contains("hunter2"), "the signature goes to the server");
}

#[test]
fn an_authorization_goes_nowhere_unencrypted_but_to_this_machine() {
    let mut options = Options::default();
    options.authorization = Some("Bearer hunter2".into());
    for address in ["http://example.com/", "s3://bucket"] {
        let error = Remote::open(address, options.clone()).unwrap_err().to_string();
        assert!(error.contains("authorization") && !error.contains("hunter2"), "{error}");
    }
    Remote::open("https://example.com/", options.clone()).unwrap();
    Remote::open("http://[::1]:1/", options).unwrap();
}

#[test]
fn an_endpoint_without_encryption_must_be_allowed() {
    let settings = |allow: &str| {
        let mut options = unhurried();
        // An address that is for documents only: nothing may be sent there.
        for (key, value) in [("aws_endpoint", "http://192.0.2.1:9"), ("aws_skip_signature", "true"), ("aws_allow_http", allow)] {
            options.settings.push((key.into(), value.into()));
        }
        options.connect = Duration::from_millis(1);
        options
    };
    let error = get(&open("s3://bucket", settings("false"))).unwrap_err();
    assert!(error.kind == RemoteErrorKind::Refused && error.message.contains("AWS_ALLOW_HTTP"), "{}", error.message);
    let error = get(&open("s3://bucket", settings("true"))).unwrap_err();
    assert!(!error.message.contains("AWS_ALLOW_HTTP"), "{}", error.message);
}
