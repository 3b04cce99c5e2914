//! A layer that is only read is not written, whoever reads it.

use super::scenario::{self, root};
use super::traced::{self, calls};
use super::values::Values;
use super::{child, scratch};
use hipplan_store::{Mode, Store};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const NOBODY: u32 = 65_534;
const LAYERS: [&str; 3] = ["loose", "packed", "damaged"];

/// A child: reads everything in the layers, behind a store of its own and alone.
pub(crate) fn read_layers(folder: &Path) {
    let mut store = Store::open_or_degrade(folder.join("own/store"));
    for layer in LAYERS {
        let path = root(&folder.join(layer));
        store = store.with_layer(&path).unwrap();
        let alone = Store::open_layer(&path).unwrap();
        // What is damaged is not served, and not set aside here.
        assert_eq!(Values::of(1).get(&alone), layer != "damaged");
        assert_eq!(alone.iter_plans().filter_map(Result::ok).count(), if layer == "damaged" { 1 } else { 2 });
        let _ = alone.verify();
        assert!(alone.put_blob(b"x").is_err());
        let reader = Store::open(&path, Mode::ReadOnly).unwrap();
        assert_eq!(Values::of(2).get(&reader), layer != "damaged");
        assert!(reader.put_plan(&Values::of(4).plan).is_err());
    }
    store = store.with_layer(folder.join("bundled/bundle")).unwrap();
    assert!(Values::of(1).get(&store) && Values::of(2).get(&store));
    assert!(!Values::of(5).get(&store));
    // What only a layer has is put into the store in front.
    assert_eq!(Values::of(6).put(&store).len(), 3);
    assert!(Values::of(6).get(&store));
}

#[test]
fn nothing_is_written_below_a_read_only_layer() {
    if !traced::is_possible() {
        return;
    }
    let work = scratch::folder();
    let folder = work.path().join("layers");
    for (layer, name) in [("loose", "get loose"), ("packed", "get packed"), ("damaged", "get damaged"), ("bundled", "get from a bundle")] {
        std::fs::create_dir_all(folder.join(layer)).unwrap();
        (scenario::of(name).before)(&folder.join(layer));
    }
    // Everybody may write everywhere: what keeps the reader from writing is itself alone.
    let open = Command::new("chmod").args(["-R", "a+rwX"]).arg(work.path()).status().unwrap();
    assert!(open.success());
    let executable = std::env::current_exe().unwrap();
    let mut users = vec![(None, executable.clone())];
    // Not in memory, of which there may be less than that needs.
    let place = tempfile::tempdir().unwrap();
    std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    match executable_of_others(&executable, place.path()) {
        Some(executable) => users.push((Some(NOBODY), executable)),
        None => {
            assert!(std::env::var_os("HIPPLAN_CI").is_none(), "only root may ask as another user, who must be able to run this executable");
            println!("NOT RUN as another user: that needs root, and an executable that others may run");
        }
    }
    for (user, executable) in users {
        let own = folder.join("own");
        drop(std::fs::remove_dir_all(&own));
        std::fs::create_dir(&own).unwrap();
        std::fs::set_permissions(&own, std::fs::Permissions::from_mode(0o777)).unwrap();
        let log = own.join("log");
        let strace = ["strace", "-f", "-qq", "-y", "-s", "4096", "-o", log.to_str().unwrap()];
        let mut command = child::copy_under(&strace, &executable, "read layers", &folder);
        if let Some(user) = user {
            command.uid(user).gid(user).current_dir("/");
        }
        let status = command.status().unwrap();
        assert!(status.success(), "{user:?}: {status:?}");
        let calls = calls(&log);
        let mut seen = 0;
        for call in &calls {
            if call.touches(&own) || !call.touches(&folder) {
                continue;
            }
            seen += 1;
            assert!(!call.is_of_writing(), "as user {user:?}: {}", call.text);
        }
        assert!(seen > 100, "{seen}");
        // The same eyes see what is written in the store in front.
        assert!(calls.iter().any(|call| call.touches(&own.join("store")) && call.is_of_writing()));
        println!("as user {user:?}: {seen} system calls below the layers, none of writing");
    }
}

/// This executable where another user may run it: in its place, else a copy of it. `None` where nothing is run as another user.
fn executable_of_others(executable: &Path, folder: &Path) -> Option<PathBuf> {
    let may_run = |executable: &Path| {
        let mut command = Command::new(executable);
        command.arg("--list").uid(NOBODY).gid(NOBODY).current_dir("/").stdout(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    if may_run(executable) {
        return Some(executable.to_owned());
    }
    let copy = folder.join("executable");
    // By another process: a child that another thread starts would keep a file open that this one writes, and the program would be busy.
    assert!(Command::new("cp").args([executable, &copy]).status().unwrap().success());
    Some(copy).filter(|copy| may_run(copy))
}
