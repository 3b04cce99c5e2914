//! The children of a self-test as their parent has them: started, waited for, and never left behind.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// What takes this much longer than it was told to hangs.
const SLACK: Duration = Duration::from_secs(60);
/// How long the end of a killed child is waited for: one inside a system call that does not come back cannot be ended.
const REAP: Duration = Duration::from_secs(30);
const NAP: Duration = Duration::from_millis(5);

/// Starts children.
pub(super) struct Children<'c> {
    pub(super) start: &'c dyn Fn(&Path, &str) -> Command,
    pub(super) folder: &'c Path,
    /// One that takes longer hangs.
    pub(super) longest: Duration,
}

impl<'c> Children<'c> {
    /// Children that work for `time`.
    pub(super) fn new(start: &'c dyn Fn(&Path, &str) -> Command, folder: &'c Path, time: Duration) -> Self {
        Self { start, folder, longest: time.saturating_add(SLACK) }
    }

    /// Starts one, whose output is kept, and which ends by itself after `time`.
    pub(super) fn spawn(&self, word: &str, time: Duration) -> Result<Running, String> {
        let mut command = (self.start)(self.folder, &format!("{word}-{}", time.as_millis()));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().map_err(|e| format!("a process cannot be started: {e}"))?;
        Ok(Running { child, start: Instant::now(), longest: self.longest })
    }

    /// Starts one and waits for its end; gives the word that it said.
    pub(super) fn ask(&self, word: &str) -> Result<String, String> {
        let ended = self.spawn(word, Duration::ZERO)?.end()?;
        if !ended.status.success() {
            return Err(format!("a process ended with {}: {}", ended.status, ended.err.trim()));
        }
        Ok(ended.out.trim().to_owned())
    }
}

/// A child. When this goes, it is killed, if it has not ended, and reaped.
#[derive(Debug)]
pub(super) struct Running {
    child: Child,
    start: Instant,
    longest: Duration,
}

/// How a child has ended, and what it has said.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) status: ExitStatus,
    pub(super) out: String,
    pub(super) err: String,
}

impl Running {
    /// Whether it has not ended yet.
    pub(super) fn is_at_work(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// The first line that it says; nothing where it ends without one, or hangs.
    pub(super) fn first_line(&mut self) -> Option<String> {
        let out = self.child.stdout.take()?;
        let (send, receive) = mpsc::channel();
        // It ends with the child at the latest, whose end of the pipe goes then.
        thread::spawn(move || {
            if let Some(Ok(line)) = BufReader::new(out).lines().next() {
                // Nobody waits for it any longer.
                drop(send.send(line));
            }
        });
        receive.recv_timeout(self.left()).ok()
    }

    /// Ends it at once, and waits for its end.
    pub(super) fn kill(mut self) -> Result<Ended, String> {
        self.child.kill().map_err(|e| format!("a process cannot be killed: {e}"))?;
        (self.start, self.longest) = (Instant::now(), REAP);
        self.end()
    }

    /// Waits for its end, for a bounded time. It says little, so its pipes hold what it says.
    pub(super) fn end(mut self) -> Result<Ended, String> {
        let status = loop {
            match self.child.try_wait() {
                Ok(Some(status)) => break status,
                Ok(None) if self.left().is_zero() => return Err(format!("a process has not ended in {} s", self.longest.as_secs())),
                Ok(None) => thread::sleep(NAP),
                Err(e) => return Err(format!("a process cannot be waited for: {e}")),
            }
        };
        Ok(Ended { status, out: all(self.child.stdout.take())?, err: all(self.child.stderr.take())? })
    }

    fn left(&self) -> Duration {
        self.longest.saturating_sub(self.start.elapsed())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // One that has ended is no longer there to be killed, which is no fault.
        drop(self.child.kill());
        let killed = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) && killed.elapsed() < REAP {
            thread::sleep(NAP);
        }
    }
}

fn all(pipe: Option<impl Read>) -> Result<String, String> {
    let mut bytes = Vec::new();
    if let Some(mut pipe) = pipe {
        pipe.read_to_end(&mut bytes).map_err(|e| format!("the output of a process cannot be read: {e}"))?;
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::super::SelftestOptions;
    use super::super::battery;
    use super::*;
    use std::cell::Cell;
    use std::path::PathBuf;

    /// A child that hangs, and says its number in a file.
    fn hanging(folder: &Path, _: &str) -> Command {
        let mut command = Command::new("sh");
        command.current_dir(folder).args(["-c", "echo $$ > pids-$$; mv pids-$$ pid-$$; exec sleep 1000"]);
        command
    }

    /// Processes that have started in the folder.
    fn started(folder: &Path) -> Vec<PathBuf> {
        let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter_map(|name| Some(Path::new("/proc").join(name.strip_prefix("pid-")?))).collect()
    }

    #[test]
    fn what_hangs_is_told_and_ended() {
        let dir = tempfile::tempdir().unwrap();
        let children = Children { start: &hanging, folder: dir.path(), longest: Duration::from_millis(300) };
        let child = children.spawn("work", Duration::ZERO).unwrap();
        let process = PathBuf::from(format!("/proc/{}", child.child.id()));
        assert!(process.exists());
        assert_eq!(child.end().unwrap_err(), "a process has not ended in 0 s");
        assert!(!process.exists(), "ended and reaped");
        let mut silent = children.spawn("lock", Duration::ZERO).unwrap();
        assert!(silent.is_at_work());
        assert_eq!(silent.first_line(), None);
    }

    #[test]
    fn the_battery_ends_whatever_its_children_do() {
        let dir = tempfile::tempdir().unwrap();
        let children = Children { start: &hanging, folder: dir.path(), longest: Duration::from_millis(500) };
        let mut options = SelftestOptions { processes: 3, time: Duration::from_millis(100), ..SelftestOptions::default() };
        let error = battery::processes(dir.path(), &options, &children).unwrap_err();
        assert_eq!(error, "a process has not ended in 0 s");
        assert!(started(dir.path()).iter().all(|process| !process.exists()), "all are ended, not only the one that was waited for");
        // A writer that says nothing is killed as any other.
        options.kills = 2;
        assert!(battery::kills(dir.path(), &options, &children).is_ok());
    }

    #[test]
    fn those_who_were_started_are_ended_when_another_cannot_be() {
        let dir = tempfile::tempdir().unwrap();
        let count = Cell::new(0);
        let start = |folder: &Path, word: &str| {
            count.set(count.get() + 1);
            if count.get() < 3 {
                return hanging(folder, word);
            }
            while started(folder).len() < 2 {
                thread::sleep(NAP);
            }
            Command::new("/no/such/program")
        };
        let children = Children { start: &start, folder: dir.path(), longest: SLACK };
        let error = battery::processes(dir.path(), &SelftestOptions::default(), &children).unwrap_err();
        assert!(error.starts_with("a process cannot be started: "), "{error}");
        let started = started(dir.path());
        assert_eq!(started.len(), 2);
        assert!(started.iter().all(|process| !process.exists()), "{started:?}");
    }
}
