//! Child processes: this test executable again, told by variables which function to run.

use std::path::Path;
use std::process::Command;

const ROLE: &str = "HIPPLAN_TEST_CHILD_ROLE";
const FOLDER: &str = "HIPPLAN_TEST_CHILD_FOLDER";

/// The arguments that make this executable a child.
const ARGUMENTS: [&str; 5] = ["child::body", "--exact", "--quiet", "--nocapture", "--test-threads=1"];

/// A child that plays a role in this folder.
pub(crate) fn command(role: &str, folder: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(ARGUMENTS).env(ROLE, role).env(FOLDER, folder);
    command
}

/// The same, started by another program: `strace` and its like.
pub(crate) fn command_under(program: &[&str], role: &str, folder: &Path) -> Command {
    copy_under(program, &std::env::current_exe().unwrap(), role, folder)
}

/// The same of a copy of this executable, for who may not run it where it is.
pub(crate) fn copy_under(program: &[&str], executable: &Path, role: &str, folder: &Path) -> Command {
    let mut command = Command::new(program[0]);
    command.args(&program[1..]).arg(executable).args(ARGUMENTS).env(ROLE, role).env(FOLDER, folder);
    command
}

/// Not a test of its own: what a child runs.
#[test]
fn body() {
    let (Ok(role), Some(folder)) = (std::env::var(ROLE), std::env::var_os(FOLDER)) else { return };
    let folder = Path::new(&folder);
    let (role, argument) = role.split_once(": ").unwrap_or((&role, ""));
    match role {
        "run when told" => super::kills::run_when_told(argument, folder),
        "announce" => super::syscalls::announce(folder),
        "read layers" => super::readonly::read_layers(folder),
        "fail each" => super::preload::fail_each(folder),
        "with changing files" => super::preload::with_changing_files(folder),
        "work" => super::many::work(argument, folder),
        "look after" => super::many::look_after(folder),
        other => panic!("{other}"),
    }
}
