//! Runs a compiler as a child process that cannot do harm: bounded in time and in what it writes, alone in its process group, in a
//! private folder, with nothing of the caller's environment but where to find programs and libraries.

use super::KernelCompileError;
use super::error::Job;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Bytes that a compiler may write into one of its files.
const OUTPUT_LIMIT: u64 = 256 << 20;
/// Bytes and lines of what a compiler says that become part of an error.
const MESSAGE_BYTES: u64 = 4096;
const MESSAGE_LINES: usize = 8;

/// Names in the private folder.
const INPUT: &str = "kernel";
const OUTPUT: &str = "out";
const SAID: &str = "stdout";
const ERRORS: &str = "stderr";

/// A private folder, removed when dropped. The child runs in it, so all names are relative and the same everywhere.
#[derive(Debug)]
pub(super) struct Folder(TempDir);

/// How a child ended.
#[derive(Debug)]
pub(super) struct Ended {
    status: ExitStatus,
    /// The first lines of what it wrote to its standard error.
    pub(super) message: String,
}

impl Folder {
    /// Name of the file that the child is to write.
    pub(super) const OUTPUT: &'static str = OUTPUT;

    pub(super) fn new() -> Result<Self, KernelCompileError> {
        let made = tempfile::Builder::new().prefix("hipplan-").tempdir();
        made.map(Self).map_err(|source| KernelCompileError::Files { what: "a private folder could not be made", source })
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// What the child wrote to its output file; nothing if there is none.
    pub(super) fn output(&self) -> Result<Vec<u8>, KernelCompileError> {
        self.read(OUTPUT)
    }

    /// What the child wrote to its standard output and its standard error.
    pub(super) fn said(&self) -> Result<String, KernelCompileError> {
        let mut all = self.read(SAID)?;
        all.extend(self.read(ERRORS)?);
        Ok(String::from_utf8_lossy(&all).into_owned())
    }

    fn read(&self, name: &str) -> Result<Vec<u8>, KernelCompileError> {
        let files = |source| KernelCompileError::Files { what: "what the compiler wrote could not be read", source };
        let file = match File::open(self.path().join(name)) {
            Ok(file) => file,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(files(e)),
        };
        let mut bytes = Vec::new();
        file.take(OUTPUT_LIMIT).read_to_end(&mut bytes).map_err(files)?;
        Ok(bytes)
    }

    /// Runs a program to its end. `input` is its standard input.
    pub(super) fn run<I, A>(
        &self,
        program: &Path,
        args: I,
        input: &[u8],
        limit: Duration,
        job: impl Fn() -> Box<Job>,
    ) -> Result<Ended, KernelCompileError>
    where
        I: IntoIterator<Item = A>,
        A: AsRef<OsStr>,
    {
        let files = |source| KernelCompileError::Files { what: "a file could not be made", source };
        let create = |name: &str| File::create(self.path().join(name)).map_err(files);
        std::fs::write(self.path().join(INPUT), input).map_err(files)?;
        let mut command = Command::new(program);
        command.args(args).current_dir(self.path()).env_clear().process_group(0);
        for name in ["PATH", "LD_LIBRARY_PATH"] {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        command.env("TMPDIR", self.path()).env("LC_ALL", "C").env("AMD_COMGR_CACHE", "0");
        command.stdin(File::open(self.path().join(INPUT)).map_err(files)?).stdout(create(SAID)?).stderr(create(ERRORS)?);
        let mut child = spawn(&mut command).map_err(|source| KernelCompileError::Start { program: program.to_owned(), source })?;
        let started = Instant::now();
        let mut pause = Duration::from_micros(200);
        let ended = loop {
            match child.try_wait() {
                Ok(Some(status)) => break Ok(status),
                Ok(None) if started.elapsed() >= limit => break Err(KernelCompileError::TimedOut { job: job(), limit }),
                Ok(None) if self.wrote_too_much() => break Err(KernelCompileError::TooMuchOutput { job: job(), limit: OUTPUT_LIMIT }),
                Ok(None) => {}
                Err(source) => break Err(KernelCompileError::Start { program: program.to_owned(), source }),
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(4));
        };
        let status = ended.inspect_err(|_| {
            kill_group(child.id());
            // It is dead: this does not block.
            let _ = child.wait();
        })?;
        Ok(Ended { status, message: self.message()? })
    }

    fn wrote_too_much(&self) -> bool {
        [OUTPUT, SAID, ERRORS].iter().any(|name| self.path().join(name).metadata().is_ok_and(|m| m.len() > OUTPUT_LIMIT))
    }

    fn message(&self) -> Result<String, KernelCompileError> {
        let files = |source| KernelCompileError::Files { what: "what the compiler said could not be read", source };
        let mut bytes = Vec::new();
        File::open(self.path().join(ERRORS)).map_err(files)?.take(MESSAGE_BYTES).read_to_end(&mut bytes).map_err(files)?;
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<_> = text.lines().filter(|l| !l.trim().is_empty()).take(MESSAGE_LINES).map(printable).collect();
        Ok(if lines.is_empty() { "it said nothing".to_owned() } else { lines.join("\n") })
    }
}

/// A line as a terminal may show it.
fn printable(line: &str) -> String {
    line.chars().map(|c| if c.is_control() && c != '\t' { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// A program that was written a moment ago is busy while another thread's child still holds what it inherited.
fn spawn(command: &mut Command) -> std::io::Result<std::process::Child> {
    let mut tries = 0;
    loop {
        match command.spawn() {
            Err(e) if e.kind() == ErrorKind::ExecutableFileBusy && tries < 100 => tries += 1,
            other => return other,
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Ends a child that was not waited for yet, and all that it started.
fn kill_group(leader: u32) {
    if let Ok(group) = libc::pid_t::try_from(leader) {
        // SAFETY: plain system call without pointers. The child leads its own group and is not reaped, so the number is not reused.
        unsafe { libc::kill(-group, libc::SIGKILL) };
    }
}

impl Ended {
    /// Whether it succeeded; if not, whether it crashed or refused.
    pub(super) fn success(self, job: impl Fn() -> Box<Job>) -> Result<(), KernelCompileError> {
        let Self { status, message } = self;
        if let Some(signal) = status.signal() {
            return Err(KernelCompileError::Crashed { job: job(), how: signal_name(signal), message });
        }
        let code = status.code().unwrap_or(-1);
        match code {
            0 => Ok(()),
            // Drivers catch the crash of what they run: 70 is their code for an error in the back end, shells add 128 to a signal.
            70 => Err(KernelCompileError::Crashed { job: job(), how: "exit code 70, an error in its back end".into(), message }),
            129..=192 => {
                let how = format!("exit code {code}, {}", signal_name(code - 128));
                Err(KernelCompileError::Crashed { job: job(), how, message })
            }
            _ if message.contains("due to signal") || message.contains("submit a bug report") => {
                Err(KernelCompileError::Crashed { job: job(), how: format!("exit code {code}, after a crash of what it ran"), message })
            }
            _ => Err(KernelCompileError::Refused { job: job(), code, message }),
        }
    }
}

fn signal_name(signal: i32) -> String {
    let name = match signal {
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGILL => "SIGILL",
        libc::SIGINT => "SIGINT",
        libc::SIGKILL => "SIGKILL, perhaps for want of memory",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGTERM => "SIGTERM",
        libc::SIGXCPU => "SIGXCPU",
        libc::SIGXFSZ => "SIGXFSZ",
        other => return format!("signal {other}"),
    };
    name.to_owned()
}
