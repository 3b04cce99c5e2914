//! Child processes: this test executable again, told by variables which function to run.

use std::path::Path;
use std::process::Command;

const ROLE: &str = "HIPPLAN_TEST_CHILD_ROLE";
const STORE: &str = "HIPPLAN_TEST_CHILD_STORE";

/// A child that plays a role on the store in this folder.
pub(crate) fn command(role: &str, root: &Path) -> Command {
    command_of(&std::env::current_exe().unwrap(), role, root)
}

/// The same of a copy of this executable.
pub(crate) fn command_of(executable: &Path, role: &str, root: &Path) -> Command {
    let mut command = Command::new(executable);
    set(&mut command, role, root);
    command.args(ARGUMENTS);
    command
}

/// The same behind a shell that first runs `prelude`.
pub(crate) fn shell_command(prelude: &str, role: &str, root: &Path) -> Command {
    let mut command = Command::new("sh");
    set(&mut command, role, root);
    command.arg("-c").arg(format!("{prelude}; exec \"$0\" \"$@\"")).arg(std::env::current_exe().unwrap()).args(ARGUMENTS);
    command
}

const ARGUMENTS: [&str; 4] = ["child::body", "--exact", "--quiet", "--test-threads=1"];

fn set(command: &mut Command, role: &str, root: &Path) {
    command.env(ROLE, role).env(STORE, root);
}

/// Not a test of its own: what a child runs.
#[test]
fn body() {
    let (Ok(role), Some(root)) = (std::env::var(ROLE), std::env::var_os(STORE)) else { return };
    let root = Path::new(&root);
    match role.as_str() {
        "fill" => super::processes::fill(root),
        "read all that is there" => super::compact::read_throughout(root),
        "fill in groups" => super::group::fill_in_groups(root),
        "fill and empty for ever" => super::processes::fill_and_empty(root),
        "without permission" => super::degrade::without_permission(root),
        "with a full disk" => super::degrade::with_a_full_disk(root),
        "location: without permission" => super::locations::without_permission(root),
        "forks: among listings" => super::forks::fork_among_listings(root),
        "forks: in the middle of upkeep" => super::forks::fork_in_upkeep(root),
        "far: fork among pushes" => super::far::fork_among_pushes(root),
        turn if turn.starts_with("turn: ") => super::turns::child(turn, root),
        other => panic!("{other}"),
    }
}
