//! Where the store is that nobody names.

use super::child;
use super::common::{tree, warnings};
use hipplan_store::LocationSource as Source;
use hipplan_store::{Location, Mode, NamedLayer, SignaturePolicy, Store, Verdict, locate_with, look_at_layer};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};

type Variables<'a> = &'a [(&'a str, &'a Path)];

fn locate(explicit: Option<&Path>, variables: Variables<'_>) -> Location {
    let find = |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value));
    locate_with(explicit, &find)
}

/// What is used, and for each place before it why it is not.
fn choice(explicit: Option<&Path>, variables: Variables<'_>) -> (Source, PathBuf, Vec<&'static str>) {
    let location = locate(explicit, variables);
    let chosen = location.candidate().unwrap();
    let before = location.candidates.iter().take(location.chosen.unwrap()).map(|c| c.verdict.code()).collect();
    (chosen.source, location.path().unwrap().to_owned(), before)
}

fn verdict(location: &Location, source: Source) -> &Verdict {
    &location.candidates.iter().find(|c| c.source == source).unwrap().verdict
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// The folder of this user in a folder for temporary files.
fn own(tmp: &Path) -> PathBuf {
    tmp.join(format!("hipplan-{}", fs::metadata(tmp).unwrap().uid()))
}

#[test]
fn places_are_asked_in_the_documented_order() {
    let dir = tempfile::tempdir().unwrap();
    let [explicit, said, xdg, home, tmp] = ["explicit", "said", "xdg", "home", "tmp"].map(|name| dir.path().join(name));
    fs::create_dir(&home).unwrap();
    fs::create_dir(&tmp).unwrap();
    let before = tree(dir.path());
    let all = [("HIPPLAN_STORE", &*said), ("XDG_CACHE_HOME", &*xdg), ("HOME", &*home), ("TMPDIR", &*tmp)];
    let no = "not-set";
    assert_eq!(choice(Some(&explicit), &all), (Source::Argument, explicit.clone(), vec![]));
    assert_eq!(choice(None, &all), (Source::Environment, said.clone(), vec![no]));
    assert_eq!(choice(None, &all[1..]), (Source::XdgCacheHome, xdg.join("hipplan/store"), vec![no; 2]));
    assert_eq!(choice(None, &all[2..]), (Source::Home, home.join(".cache/hipplan/store"), vec![no; 3]));
    assert_eq!(choice(None, &all[3..]), (Source::Tmpdir, own(&tmp).join("store"), vec![no; 4]));
    let bare = locate(None, &[]);
    assert_eq!(bare.candidates.iter().map(|c| c.source).collect::<Vec<_>>(), Source::ALL);
    assert!(bare.candidate().is_none_or(|c| matches!(c.source, Source::VarTmp | Source::Tmp)), "{bare:?}");
    // What comes after the place that is used is not looked at, and nothing is created by asking.
    assert!(locate(None, &all[2..]).candidates[4..].iter().all(|c| c.verdict == Verdict::NotLookedAt && c.path.is_none()));
    assert_eq!(tree(dir.path()), before);
}

#[test]
fn odd_homes_and_caches_are_passed_over_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    let tmp = dir.path().join("tmp");
    fs::create_dir(&tmp).unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    let cases: [(&Path, &str); 6] = [
        (Path::new(""), "empty"),
        (Path::new("home/me"), "relative"),
        (Path::new("/"), "root"),
        (Path::new("//"), "root"),
        (Path::new("/nonexistent"), "absent"),
        (&file, "foreign"),
    ];
    for (home, code) in cases {
        let location = locate(None, &[("HOME", home), ("TMPDIR", &tmp)]);
        assert_eq!(verdict(&location, Source::Home).code(), code, "{home:?}");
        assert_eq!(location.candidate().unwrap().source, Source::Tmpdir, "{home:?}");
    }
    // A cache folder that does not exist is made; otherwise the same holds of it.
    for (cache, code) in [("", "empty"), ("cache", "relative"), ("/", "root")] {
        let location = locate(None, &[("XDG_CACHE_HOME", Path::new(cache)), ("TMPDIR", &tmp)]);
        assert_eq!(verdict(&location, Source::XdgCacheHome).code(), code, "{cache}");
        assert_eq!(location.candidate().unwrap().source, Source::Tmpdir, "{cache}");
    }
    // A file on the way is named.
    let location = locate(None, &[("XDG_CACHE_HOME", &file), ("HOME", dir.path())]);
    let text = verdict(&location, Source::XdgCacheHome).to_string();
    assert!(text.contains(&*file.to_string_lossy()), "{text}");
    assert_eq!(location.candidate().unwrap().source, Source::Home);
    // So is a folder with something else in it.
    fs::create_dir_all(dir.path().join(".cache/hipplan/store")).unwrap();
    fs::write(dir.path().join(".cache/hipplan/store/thesis.tex"), "").unwrap();
    let location = locate(None, &[("HOME", dir.path()), ("TMPDIR", &tmp)]);
    assert_eq!(verdict(&location, Source::Home).code(), "not-a-store");
    assert_eq!(location.candidate().unwrap().source, Source::Tmpdir);
}

#[test]
fn a_place_that_is_said_is_never_replaced_by_another() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    let below = file.join("below");
    let dangling = dir.path().join("dangling");
    symlink(dir.path().join("nothing"), &dangling).unwrap();
    for place in [&file, &below, &dangling, Path::new("/proc/version")] {
        for (explicit, source, variable) in [(Some(place), Source::Argument, Path::new("")), (None, Source::Environment, place)] {
            let location = locate(explicit, &[("HIPPLAN_STORE", variable), ("HOME", dir.path())]);
            let chosen = location.candidate().unwrap();
            assert_eq!((chosen.source, chosen.path.as_deref()), (source, Some(place)));
            assert!(!chosen.verdict.is_usable() && !chosen.verdict.to_string().is_empty(), "{chosen:?}");
            assert_eq!(location.settle().unwrap(), place);
        }
        let (store, warned) = warnings(|| Store::open_or_degrade(place));
        assert!(store.unavailable().is_some());
        assert_eq!(warned.len(), 1, "{warned:?}");
    }
    // An empty argument is a mistake, an empty variable is none.
    let location = locate(Some(Path::new("")), &[("HOME", dir.path())]);
    assert_eq!((location.chosen, &location.candidates[0].verdict), (Some(0), &Verdict::Empty));
    let location = locate(None, &[("HIPPLAN_STORE", Path::new("")), ("HOME", dir.path())]);
    assert_eq!(location.candidate().unwrap().source, Source::Home);
    // A relative one is as it is said.
    let location = locate(None, &[("HIPPLAN_STORE", Path::new("plans-that-nobody-has"))]);
    assert_eq!((location.path(), verdict(&location, Source::Environment)), (Some(Path::new("plans-that-nobody-has")), &Verdict::New));
}

#[test]
fn paths_of_any_bytes_work() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["Pläne für 計画", "with space", "new\nline"].map(OsStr::new).into_iter().chain([OsStr::from_bytes(b"\xff\xfe")]) {
        let home = dir.path().join(name);
        fs::create_dir(&home).unwrap();
        let location = locate(None, &[("HOME", &home)]);
        assert_eq!(location.candidate().unwrap().verdict, Verdict::New);
        let path = location.settle().unwrap();
        assert_eq!(path, home.join(".cache/hipplan/store"));
        let store = Store::open(path, Mode::ReadWrite).unwrap();
        assert!(store.put_blob(b"x").unwrap().persisted.is_persisted());
        let again = locate(None, &[("HOME", &home)]);
        assert_eq!(again.candidate().unwrap().verdict, Verdict::Store);
    }
}

#[test]
fn a_folder_among_temporary_files_is_the_users_alone() {
    let dir = tempfile::tempdir().unwrap();
    let tmp = dir.path();
    let variables = [("TMPDIR", tmp)];
    let place = own(tmp).join("store");
    assert_eq!(locate(None, &variables).candidate().unwrap().verdict, Verdict::New);
    let location = locate(None, &variables);
    assert_eq!(location.settle().unwrap(), place);
    let meta = fs::symlink_metadata(own(tmp)).unwrap();
    assert_eq!(meta.mode() & 0o7777, 0o700);
    let _ = Store::open(&place, Mode::ReadWrite).unwrap();
    assert_eq!(locate(None, &variables).candidate().unwrap().verdict, Verdict::Store);

    // Others may read it if its user lets them, but may not write.
    set_mode(&own(tmp), 0o755);
    assert_eq!(locate(None, &variables).path(), Some(&*place));
    for mode in [0o770, 0o702, 0o777, 0o1777] {
        set_mode(&own(tmp), mode);
        refused(tmp, "others may write");
    }
    set_mode(&own(tmp), 0o700);
    // Where others may replace what is in the folder above, nothing in it is safe; where it is sticky, they may not.
    set_mode(tmp, 0o777);
    refused(tmp, "others may replace");
    set_mode(tmp, 0o1777);
    assert_eq!(locate(None, &variables).path(), Some(&*place));

    let elsewhere = tempfile::tempdir().unwrap();
    fs::rename(own(tmp), elsewhere.path().join("real")).unwrap();
    symlink(elsewhere.path().join("real"), own(tmp)).unwrap();
    refused(tmp, "a symbolic link");
    fs::remove_file(own(tmp)).unwrap();
    fs::write(own(tmp), "").unwrap();
    refused(tmp, "a file");
    fs::remove_file(own(tmp)).unwrap();
    if meta.uid() == 0 {
        // Only root can give a folder away.
        fs::create_dir(own(tmp)).unwrap();
        set_mode(&own(tmp), 0o700);
        std::os::unix::fs::chown(own(tmp), Some(65_534), None).unwrap();
        refused(tmp, "a folder of user 65534");
        // Somebody else is faster than who has just looked.
        assert!(matches!(location.settle(), Err(Verdict::Unusable { code: "not-private", .. })));
    }
    let missing = tmp.join("missing");
    assert_eq!(verdict(&locate(None, &[("TMPDIR", &missing)]), Source::Tmpdir).code(), "absent");
}

/// The folder of this user is refused with this word, and another place is taken, or none.
fn refused(tmp: &Path, word: &str) {
    let location = locate(None, &[("TMPDIR", tmp)]);
    let verdict = verdict(&location, Source::Tmpdir);
    assert!(verdict.code() == "not-private" && verdict.to_string().contains(word), "{word}: {verdict}");
    assert!(location.candidate().is_none_or(|c| c.source != Source::Tmpdir));
}

#[test]
fn layers_are_listed_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    let _ = Store::open(&store, Mode::ReadWrite).unwrap();
    let bundle = dir.path().join("plans.pack");
    fs::write(&bundle, "").unwrap();
    let missing = dir.path().join(OsStr::from_bytes(b"\xff"));
    let mut list = OsString::from(":");
    for path in [&store, &missing] {
        list.push(path);
        list.push(":");
    }
    list.push("require=");
    list.push(&bundle);
    let location = locate(None, &[("HIPPLAN_LAYERS", Path::new(&list)), ("HOME", dir.path())]);
    let named = |path: &Path, signatures| NamedLayer { path: path.to_owned(), signatures };
    assert_eq!(location.layers, [named(&store, None), named(&missing, None), named(&bundle, Some(SignaturePolicy::Require))]);
    let codes = [&store, &missing, &bundle].map(|path| look_at_layer(path).code());
    assert_eq!(codes, ["store", "no-such-store", "file"]);
    assert!(locate(None, &[]).layers.is_empty());
}

/// A child that may not write this home, nor the store in the one beside it.
pub(crate) fn without_permission(home: &Path) {
    let location = locate(None, &[("HOME", home)]);
    assert_eq!(verdict(&location, Source::Home).code(), "no-permission");
    assert!(location.candidate().is_none_or(|c| c.source.is_temporary()));
    // A store that is there is read.
    let filled = home.with_file_name("filled");
    let location = locate(None, &[("HOME", &filled)]);
    assert_eq!(location.candidate().unwrap().verdict, Verdict::ReadOnly);
    assert!(Store::open(location.path().unwrap(), Mode::ReadOnly).is_ok());
}

#[test]
fn a_home_that_cannot_be_written_is_passed_over_unless_a_store_is_there() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("home");
    fs::create_dir(&home).unwrap();
    let store = dir.path().join("filled/.cache/hipplan/store");
    let _ = Store::open(&store, Mode::ReadWrite).unwrap();
    for folder in [dir.path(), &home, &store] {
        set_mode(folder, 0o555);
    }
    if fs::metadata(dir.path()).unwrap().uid() == 0 {
        // Permissions do not bind root, so somebody else tries; unless nobody else can run this executable.
        let mut command = child::command("location: without permission", &home);
        match command.uid(65_534).gid(65_534).current_dir("/").status() {
            Ok(status) => assert!(status.success()),
            Err(e) => assert_eq!(e.kind(), std::io::ErrorKind::PermissionDenied),
        }
    } else {
        without_permission(&home);
    }
    // So that the folders can be removed.
    for folder in [dir.path(), &home, &store] {
        set_mode(folder, 0o755);
    }
}
