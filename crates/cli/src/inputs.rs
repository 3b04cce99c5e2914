//! Graphs named on the command line: files, folders, standard input.

use anyhow::{Context, bail, ensure};
use hipplan::{AlignedBytes, ImportedGraph, Limits, plan};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Most bytes of a plan file; the store's own limit.
const MAX_PLAN_BYTES: u64 = 1 << 30;

/// Endings that mark a graph in a folder. A file that is named itself may have any ending.
const ENDINGS: [&str; 4] = ["json", "hpgraph", "bin", "fb"];

/// An input: where it comes from, and the graph or what is wrong with it.
pub(crate) struct Input {
    pub(crate) source: String,
    pub(crate) graph: Result<ImportedGraph, String>,
}

/// Files in the order given; folders are walked in order of name. A path that does not exist is an error, a file that cannot be read or
/// is no graph is an input that says so.
pub(crate) fn expand(paths: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in paths {
        if path == Path::new("-") {
            files.push(path.clone());
            continue;
        }
        let kind = std::fs::metadata(path).with_context(|| path.display().to_string())?;
        if kind.is_dir() {
            let before = files.len();
            walk(path, &mut files, 0)?;
            if files.len() == before {
                bail!("{}: the folder holds no file that ends in {}", path.display(), ENDINGS.join(", "));
            }
        } else {
            files.push(path.clone());
        }
    }
    Ok(files)
}

fn walk(folder: &Path, files: &mut Vec<PathBuf>, depth: usize) -> anyhow::Result<()> {
    if depth > 32 {
        bail!("{}: folders nest deeper than 32", folder.display());
    }
    let entries = std::fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut entries: Vec<PathBuf> =
        entries.map(|e| e.map(|e| e.path())).collect::<Result<_, _>>().with_context(|| folder.display().to_string())?;
    entries.sort();
    for path in entries {
        // Links to files are followed, links to folders are not: they could lead round in circles.
        if std::fs::symlink_metadata(&path).is_ok_and(|m| m.is_dir()) {
            walk(&path, files, depth + 1)?;
        } else if path.is_file() && path.extension().is_some_and(|e| ENDINGS.iter().any(|known| e.eq_ignore_ascii_case(known))) {
            files.push(path);
        }
    }
    Ok(())
}

/// Reads one input; `-` is standard input.
pub(crate) fn read(path: &Path, limits: &Limits) -> Input {
    let (source, bytes) = if path == Path::new("-") {
        ("standard input".to_owned(), read_limited(std::io::stdin().lock(), limits))
    } else {
        let bytes = std::fs::File::open(path).and_then(|file| read_limited(file, limits));
        (path.display().to_string(), bytes)
    };
    let graph = bytes.map_err(|e| e.to_string()).and_then(|bytes| hipplan::import(&bytes, limits).map_err(|e| e.to_string()));
    Input { source, graph }
}

/// Reads a plan file or a graph whole, up to what either may have.
pub(crate) fn read_file(path: &Path) -> anyhow::Result<AlignedBytes> {
    let mut head = [0; 16];
    let mut file = std::fs::File::open(path)?;
    let got = read_up_to(&mut file, &mut head)?;
    let limit = if plan::is_plan(&head[..got]) { MAX_PLAN_BYTES } else { Limits::DEFAULT.max_bytes };
    let mut bytes = AlignedBytes::new();
    bytes.extend_from_slice(&head[..got]);
    let mut rest = Vec::new();
    file.take(limit).read_to_end(&mut rest)?;
    bytes.extend_from_slice(&rest);
    ensure!(bytes.len() as u64 <= limit, "the file is over the limit of {limit} bytes");
    Ok(bytes)
}

fn read_up_to(file: &mut impl Read, buffer: &mut [u8]) -> std::io::Result<usize> {
    let mut got = 0;
    while got < buffer.len() {
        match file.read(&mut buffer[got..])? {
            0 => break,
            n => got += n,
        }
    }
    Ok(got)
}

/// Reads one byte more than the limit at most: enough for the importer to name the limit.
fn read_limited(from: impl Read, limits: &Limits) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(limits.max_bytes.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads one input that must be a graph.
pub(crate) fn read_graph(path: &Path) -> anyhow::Result<(String, ImportedGraph)> {
    let input = read(path, &Limits::DEFAULT);
    match input.graph {
        Ok(graph) => Ok((input.source, graph)),
        Err(reason) => bail!("{}: {reason}", input.source),
    }
}
