//! Graph artifacts of the problems met, for `hipplan compile`: `HIPPLAN_MIOPEN_RECORD`.
//!
//! Every problem that is a graph is written once, whoever answers it; the file's name is the key, so that runs and processes may share a
//! folder. Calls with other scalars than (1, 0), biases and fused calls are graphs of their own.

use crate::{config, log};
use hipplan_serialize::{GraphBuf, GraphKey};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

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
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let temporary = folder.join(format!(".{key}.{}.{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed)));
    let result = File::create(&temporary)
        .and_then(|mut file| file.write_all(&graph.view().to_artifact()))
        .and_then(|()| fs::rename(&temporary, path));
    if result.is_err() {
        _ = fs::remove_file(&temporary);
    }
    result
}
