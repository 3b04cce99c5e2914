//! nginx, as the system's package brings it, with a configuration of the test's.

#![allow(dead_code, clippy::unwrap_used, reason = "every test program uses a part of it, and unwraps as tests do")]

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

pub(crate) struct Nginx {
    pub(crate) port: u16,
    folder: tempfile::TempDir,
    child: Child,
}

/// Where it is; none, said aloud, where it is not installed. It must be in continuous integration.
pub(crate) fn program() -> Option<PathBuf> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&folders)
        .chain([PathBuf::from("/usr/sbin"), PathBuf::from("/usr/local/sbin")])
        .map(|folder| folder.join("nginx"))
        .find(|path| path.is_file());
    if found.is_none() {
        assert!(std::env::var_os("HIPPLAN_CI").is_none(), "nginx is needed and not installed");
        eprintln!("skipped: nginx is not installed");
    }
    found
}

impl Nginx {
    /// `server` is what stands in the server block beside `listen` and `root`; `tls` names certificate and key.
    pub(crate) fn start(program: &Path, server: &str, tls: Option<(&Path, &Path)>) -> Self {
        // Another program may take the port in between: then this one ends at once, and the next port is tried.
        for _ in 0..20 {
            if let Some(nginx) = Self::try_start(program, server, tls) {
                return nginx;
            }
        }
        panic!("nginx does not start");
    }

    fn try_start(program: &Path, server: &str, tls: Option<(&Path, &Path)>) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        std::fs::create_dir(&root).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let place = folder.path().display();
        let (ssl, certificate) = match tls {
            Some((certificate, key)) => {
                (" ssl", format!("ssl_certificate {}; ssl_certificate_key {};", certificate.display(), key.display()))
            }
            None => ("", String::new()),
        };
        // Workers keep this user: root's own would not be let into a temporary folder.
        let user = if Path::new("/proc/self").exists() && is_root() { "user root;" } else { "" };
        let configuration = format!(
            "daemon off; {user} worker_processes 1; pid {place}/pid; error_log {place}/error.log;
            events {{ worker_connections 64; }}
            http {{
                access_log off; client_max_body_size 64m;
                client_body_temp_path {place}/body; proxy_temp_path {place}/proxy; fastcgi_temp_path {place}/fastcgi;
                uwsgi_temp_path {place}/uwsgi; scgi_temp_path {place}/scgi;
                server {{ listen 127.0.0.1:{port}{ssl}; {certificate} root {place}/root; {server} }}
            }}"
        );
        let file = folder.path().join("nginx.conf");
        std::fs::write(&file, configuration).unwrap();
        let errors = folder.path().join("first-errors");
        let mut child = Command::new(program)
            .args(["-p", folder.path().to_str().unwrap(), "-e"])
            .arg(&errors)
            .arg("-c")
            .arg(&file)
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        loop {
            if TcpStream::connect(("127.0.0.1", port)).is_ok() && folder.path().join("pid").exists() {
                return Some(Self { port, folder, child });
            }
            if child.try_wait().unwrap().is_some() {
                eprintln!("{}", std::fs::read_to_string(folder.path().join("error.log")).unwrap_or_default());
                return None;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// The folder that it serves.
    pub(crate) fn root(&self) -> PathBuf {
        self.folder.path().join("root")
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // Quick shutdown, so that its workers end too; a kill would leave them.
        let told = Command::new("kill").arg(self.child.id().to_string()).status();
        if told.is_ok_and(|status| status.success()) {
            let _ = self.child.wait();
        }
    }
}

fn is_root() -> bool {
    // SAFETY: takes nothing, gives a number, never fails.
    unsafe { libc::geteuid() == 0 }
}
