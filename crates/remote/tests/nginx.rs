//! Against nginx: as a plain web server, with WebDAV, and over TLS.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod common;
#[path = "servers/nginx.rs"]
mod nginx;

use common::{name, open, there_and_back, unhurried};
use hipplan_store::{EntryKind, RemoteErrorKind, RemoteTier};
use nginx::{Nginx, program};
use std::path::Path;

const WEBDAV: &str = "dav_methods PUT MKCOL; create_full_put_path on;";

#[test]
fn with_webdav_it_is_read_and_written() {
    let Some(program) = program() else { return };
    let nginx = Nginx::start(&program, WEBDAV, None);
    std::fs::create_dir(nginx.root().join("plans")).unwrap();
    there_and_back(&open(&format!("http://127.0.0.1:{}/plans", nginx.port), unhurried()));
    assert!(nginx.root().join("plans/v1/blob").is_dir());
}

#[test]
fn a_plain_web_server_is_read_and_says_that_it_cannot_be_written() {
    let Some(program) = program() else { return };
    let writer = Nginx::start(&program, WEBDAV, None);
    open(&format!("http://127.0.0.1:{}", writer.port), unhurried()).put(EntryKind::Plan, &name(1), b"entry").unwrap();
    let nginx = Nginx::start(&program, "", None);
    copy(&writer.root(), &nginx.root());
    let remote = open(&format!("http://127.0.0.1:{}", nginx.port), unhurried());
    assert_eq!(remote.get(EntryKind::Plan, &name(1), 9).unwrap().as_deref(), Some(&b"entry"[..]));
    assert_eq!(remote.get(EntryKind::Plan, &name(2), 9).unwrap(), None);
    let error = remote.put(EntryKind::Plan, &name(2), b"entry").unwrap_err();
    assert_eq!(error.kind, RemoteErrorKind::Refused);
    assert!(error.message.contains("405") && error.message.contains("WebDAV"), "{}", error.message);
}

#[test]
fn an_authorization_is_sent() {
    let Some(program) = program() else { return };
    let nginx = Nginx::start(&program, &format!("{WEBDAV} if ($http_authorization != \"Bearer hunter2hunter2\") {{ return 401; }}"), None);
    let address = format!("http://127.0.0.1:{}", nginx.port);
    let error = open(&address, unhurried()).get(EntryKind::Blob, &name(1), 9).unwrap_err();
    assert_eq!(error.kind, RemoteErrorKind::Refused, "{}", error.message);
    let mut options = unhurried();
    options.authorization = Some("Bearer hunter2hunter2".into());
    let remote = open(&address, options);
    assert!(!format!("{remote:?}").contains("hunter2"), "{remote:?}");
    there_and_back(&remote);
}

/// A server whose certificate nobody has signed is refused; one that the system trusts is used. Certificates that are trusted come from the
/// environment, so that each case is a process of its own.
#[test]
fn certificates_are_checked() {
    let Some(program) = program() else { return };
    if let Some(port) = std::env::var_os("HIPPLAN_TEST_PORT") {
        let remote = open(&format!("https://localhost:{}", port.to_str().unwrap()), unhurried());
        match remote.get(EntryKind::Blob, &name(1), 9) {
            Ok(None) => println!("answer: none"),
            other => println!("answer: {other:?}"),
        }
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (certificate, key, other) = (folder.path().join("cert.pem"), folder.path().join("key.pem"), folder.path().join("other.pem"));
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    std::fs::write(&other, rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap().cert.pem()).unwrap();
    let nginx = Nginx::start(&program, "", Some((&certificate, &key)));
    let ask = |trusted: &Path| {
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "certificates_are_checked", "--nocapture"])
            .env("HIPPLAN_TEST_PORT", nginx.port.to_string())
            .env("SSL_CERT_FILE", trusted)
            .env_remove("SSL_CERT_DIR")
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().find(|line| line.contains("answer: ")).unwrap_or(&text).to_owned()
    };
    assert!(ask(&certificate).ends_with("answer: none"), "{}", ask(&certificate));
    let refused = ask(&other);
    assert!(refused.contains("Unreachable") && refused.contains("certificate"), "{refused}");
}

fn copy(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            std::fs::create_dir(&to).unwrap();
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), &to).unwrap();
        }
    }
}
