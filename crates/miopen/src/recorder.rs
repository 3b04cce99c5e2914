//! Graph artifacts of the problems met, for `hipplan compile`: `HIPPLAN_MIOPEN_RECORD`.
//!
//! Every problem that is a graph is written once, whoever answers it; the file's name is the key, so that runs and processes may share a
//! folder. Calls with other scalars than (1, 0), biases and fused calls are graphs of their own.

use crate::{config, log};
use hipplan_serialize::{GraphBuf, GraphKey};
use std::fs::{self, File};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Whether problems are recorded.
#[inline]
pub fn is_on() -> bool {
    config::get().record.is_some()
}

/// Records a graph, if that is wanted. What fails is a warning.
pub fn record(graph: &GraphBuf, key: &GraphKey) {
    let Some(folder) = &config::get().record else { return };
    if let Err(error) = write(folder, graph, key) {
        log::warning(format_args!("{}={}: {key} is not recorded: {error}", config::RECORD, folder.display()));
    }
}

/// Writes `KEY.hpgraph`, a file that either is whole or is not there.
fn write(folder: &Path, graph: &GraphBuf, key: &GraphKey) -> io::Result<()> {
    let path = folder.join(format!("{key}.hpgraph"));
    if path.exists() {
        return Ok(());
    }
    fs::create_dir_all(folder)?;
    let (temporary, mut file) = temporary(folder, key)?;
    // On the disk before it has its name: after a crash of the machine, a name without content would never be written again.
    let result = file.write_all(&graph.view().to_artifact()).and_then(|()| file.sync_all()).and_then(|()| fs::rename(&temporary, path));
    if result.is_err() {
        _ = fs::remove_file(&temporary);
    }
    result
}

/// A new file that nobody else writes to. Process ids do not tell the writers of a folder apart: containers have the same ones.
fn temporary(folder: &Path, key: &GraphKey) -> io::Result<(PathBuf, File)> {
    const ATTEMPTS: usize = 16;
    for _ in 0..ATTEMPTS {
        // The standard library's hashers begin with random numbers of the system's.
        let random = RandomState::new().build_hasher().finish();
        let path = folder.join(format!(".{key}.{random:016x}"));
        match File::create_new(&path) {
            Ok(file) => return Ok((path, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::new(io::ErrorKind::AlreadyExists, "no free name for a temporary file"))
}

#[cfg(test)]
mod tests {
    use super::{GraphKey, temporary};

    #[test]
    fn writers_of_one_process_id_have_files_of_their_own() {
        let folder = tempfile::tempdir().expect("a folder");
        let key = GraphKey([7; 32]);
        let paths: std::collections::BTreeSet<_> = (0..100).map(|_| temporary(folder.path(), &key).expect("a file").0).collect();
        assert_eq!(paths.len(), 100);
        assert!(temporary(&folder.path().join("nowhere"), &key).is_err());
    }
}
