//! Runs a compiler as a child process that cannot do harm: bounded in time and in what it writes, alone in its process group, in a
//! private folder, with nothing of the caller's environment but where to find programs and libraries.

use super::KernelCompileError;
use super::error::Job;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
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

/// How long a program may be busy: a child of another thread lets go of what it inherited when it becomes another program.
const BUSY: Duration = Duration::from_secs(5);

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

    /// What the child, which succeeded, wrote to its output file.
    pub(super) fn output(&self, job: impl Fn() -> Box<Job>) -> Result<Vec<u8>, KernelCompileError> {
        self.read(OUTPUT, OUTPUT_LIMIT)?.map_err(|found| KernelCompileError::NoOutput { job: job(), found })
    }

    /// What the child wrote to its standard output and its standard error.
    pub(super) fn said(&self) -> Result<String, KernelCompileError> {
        let mut all = self.read(SAID, OUTPUT_LIMIT)?.unwrap_or_default();
        all.extend(self.read(ERRORS, OUTPUT_LIMIT)?.unwrap_or_default());
        Ok(String::from_utf8_lossy(&all).into_owned())
    }

    /// The first bytes of a file, or what there is in its place. The child may have put anything there: a pipe that nobody writes to would
    /// be waited for without end, a link may lead anywhere.
    fn read(&self, name: &str, limit: u64) -> Result<Result<Vec<u8>, &'static str>, KernelCompileError> {
        let files = |source| KernelCompileError::Files { what: "what the compiler wrote could not be read", source };
        let mut options = File::options();
        options.read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW);
        let file = match options.open(self.path().join(name)) {
            Ok(file) => file,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Err("nothing")),
            Err(e) if e.raw_os_error() == Some(libc::ELOOP) => return Ok(Err("a link")),
            Err(e) => return Err(files(e)),
        };
        if !file.metadata().map_err(files)?.is_file() {
            return Ok(Err("something that is no file"));
        }
        let mut bytes = Vec::new();
        file.take(limit).read_to_end(&mut bytes).map_err(files)?;
        Ok(Ok(bytes))
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
            match has_ended(child.id()) {
                Ok(true) => break Ok(()),
                Ok(false) if started.elapsed() >= limit => break Err(KernelCompileError::TimedOut { job: job(), limit }),
                Ok(false) if self.wrote_too_much() => break Err(KernelCompileError::TooMuchOutput { job: job(), limit: OUTPUT_LIMIT }),
                Ok(false) => {}
                Err(source) => break Err(KernelCompileError::Start { program: program.to_owned(), source }),
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(4));
        };
        // However it ended: what it started and did not wait for would stay, and write into a folder that is about to go.
        kill_group(child.id());
        // It is dead: this does not block.
        let status = child.wait();
        ended?;
        // It may have written more since it was looked at last.
        if self.wrote_too_much() {
            return Err(KernelCompileError::TooMuchOutput { job: job(), limit: OUTPUT_LIMIT });
        }
        let status = status.map_err(|source| KernelCompileError::Start { program: program.to_owned(), source })?;
        Ok(Ended { status, message: self.message()? })
    }

    fn wrote_too_much(&self) -> bool {
        // What a link leads to is not the compiler's writing.
        let is_too_long = |name: &&str| self.path().join(name).symlink_metadata().is_ok_and(|m| m.is_file() && m.len() > OUTPUT_LIMIT);
        [OUTPUT, SAID, ERRORS].iter().any(is_too_long)
    }

    fn message(&self) -> Result<String, KernelCompileError> {
        let bytes = self.read(ERRORS, MESSAGE_BYTES)?.unwrap_or_default();
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
    let began = Instant::now();
    loop {
        match command.spawn() {
            Err(e) if e.kind() == ErrorKind::ExecutableFileBusy && began.elapsed() < BUSY => {}
            other => return other,
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Whether a child has ended. It is not waited for yet: until then its number stays its own.
fn has_ended(child: u32) -> std::io::Result<bool> {
    // SAFETY: the structure is of plain numbers, for which zeros are values.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a structure of the right type.
    let code = unsafe { libc::waitid(libc::P_PID, child, &raw mut info, libc::WEXITED | libc::WNOHANG | libc::WNOWAIT) };
    if code != 0 {
        let error = std::io::Error::last_os_error();
        return if error.kind() == ErrorKind::Interrupted { Ok(false) } else { Err(error) };
    }
    // SAFETY: the call has filled the structure, with zeros if the child runs.
    Ok(unsafe { info.si_pid() } != 0)
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
