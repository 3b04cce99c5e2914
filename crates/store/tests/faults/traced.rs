//! `strace`, and what it prints.

use std::path::Path;
use std::process::Command;

/// Whether processes can be traced here. CI must be able to.
pub(crate) fn is_possible() -> bool {
    let works = Command::new("strace").args(["-qq", "-o", "/dev/null", "true"]).status().is_ok_and(|status| status.success());
    assert!(works || std::env::var_os("HIPPLAN_CI").is_none(), "strace does not work here");
    if !works {
        println!("NOT RUN: strace does not work here");
    }
    works
}

/// One system call.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) name: String,
    /// The whole line.
    pub(crate) text: String,
}

/// The calls in what `strace -o FILE` wrote, in order, with the parts of those that were interrupted by others put together.
pub(crate) fn calls(file: &Path) -> Vec<Call> {
    let text = String::from_utf8_lossy(&std::fs::read(file).unwrap()).into_owned();
    let mut unfinished: Vec<(String, String)> = Vec::new();
    let mut calls = Vec::new();
    for line in text.lines() {
        // With `-f`, the thread comes first.
        let (thread, rest) = match line.split_once(' ') {
            Some((first, rest)) if first.bytes().all(|b| b.is_ascii_digit()) => (first, rest.trim_start()),
            _ => ("", line),
        };
        let rest = if let Some(resumed) = rest.strip_prefix("<... ") {
            let Some(at) = unfinished.iter().position(|(of, _)| of == thread) else { continue };
            let start = unfinished.swap_remove(at).1;
            start + resumed.split_once("resumed>").map_or("", |(_, end)| end)
        } else if let Some(start) = rest.strip_suffix("<unfinished ...>") {
            unfinished.push((thread.to_owned(), start.to_owned()));
            continue;
        } else {
            rest.to_owned()
        };
        let Some((name, _)) = rest.split_once('(') else { continue };
        if name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
            calls.push(Call { name: name.to_owned(), text: rest });
        }
    }
    calls
}

impl Call {
    /// Whether it names this path, or something below it.
    pub(crate) fn touches(&self, path: &Path) -> bool {
        self.text.contains(path.to_str().unwrap())
    }

    /// Whether it changes something, or asks for the means to.
    pub(crate) fn is_of_writing(&self) -> bool {
        const WRITING: [&str; 31] = [
            "creat",
            "mkdir",
            "mkdirat",
            "rename",
            "renameat",
            "renameat2",
            "link",
            "linkat",
            "symlink",
            "symlinkat",
            "unlink",
            "unlinkat",
            "rmdir",
            "write",
            "writev",
            "pwrite64",
            "pwritev",
            "pwritev2",
            "truncate",
            "ftruncate",
            "fallocate",
            "utimensat",
            "utime",
            "utimes",
            "chmod",
            "fchmod",
            "fchmodat",
            "chown",
            "fchown",
            "setxattr",
            "mknodat",
        ];
        let is_opening = matches!(self.name.as_str(), "open" | "openat" | "openat2");
        WRITING.contains(&self.name.as_str())
            || is_opening && ["O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC", "O_TMPFILE"].iter().any(|flag| self.text.contains(flag))
            || matches!(self.name.as_str(), "fsync" | "fdatasync" | "sync_file_range" | "syncfs" | "flock")
            || self.name == "mmap" && self.text.contains("PROT_WRITE") && self.text.contains("MAP_SHARED")
    }
}
