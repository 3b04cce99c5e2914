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
