use super::*;

#[test]
fn folders_are_synced_and_pipes_in_their_place_not_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    sync_folder(dir.path()).unwrap();
    std::os::unix::fs::symlink(dir.path(), dir.path().join("link")).unwrap();
    sync_folder(&dir.path().join("link")).unwrap();
    let pipe = dir.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for error in [sync_folder(&pipe).unwrap_err(), syncs_folders(&pipe).unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::NotADirectory);
    }
    assert!(status_anew(&pipe).unwrap().kind != Kind::Folder && status_anew(dir.path()).unwrap().kind == Kind::Folder);
    assert_eq!(status_anew(&dir.path().join("none")).unwrap_err().kind(), ErrorKind::NotFound);
    std::fs::write(dir.path().join("file"), "x").unwrap();
    let asked = status_anew(&dir.path().join("file")).unwrap();
    assert_eq!(asked.inode, status(&dir.path().join("file")).unwrap().inode);
}

#[test]
fn a_path_is_made_absolute_as_the_standard_library_makes_it() {
    let paths =
        ["/", "/a", "/a/b", "/a/../b", "/a/b/", "/a//b", "//a", "/a/./b", "/a/.", "/.", "/.a/..b", "/a/..", "a", "./a", "../a", "."];
    for path in paths.map(Path::new) {
        assert_eq!(absolute(path).unwrap().as_os_str(), std::path::absolute(path).unwrap().as_os_str(), "{path:?}");
    }
    assert!(absolute(Path::new("")).is_err());
    assert!(is_plain(Path::new("/a/../b")) && !is_plain(Path::new("/a/b/")) && !is_plain(Path::new("a")));
}

#[test]
fn a_file_is_just_some_bytes_if_it_is_a_file_and_has_no_others() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    let is_just = |bytes: &[u8]| is_just(&path, bytes);
    assert!(!is_just(b"abc"));
    std::fs::write(&path, "abc").unwrap();
    assert!(is_just(b"abc") && !is_just(b"ab") && !is_just(b"abcd") && !is_just(b""));
    // Longer than what is read of it.
    std::fs::write(&path, [b'a'; 65]).unwrap();
    assert!(!is_just(&[b'a'; 64]) && !is_just(&[b'a'; 65]));
    std::fs::remove_file(&path).unwrap();
    std::fs::write(dir.path().join("other"), "abc").unwrap();
    std::os::unix::fs::symlink("other", &path).unwrap();
    assert!(!is_just(b"abc"), "a link");
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    assert!(!is_just(b"abc"), "a folder");
}
