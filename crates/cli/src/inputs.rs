//! Graphs named on the command line: files, folders, standard input, driver lines.

use crate::output;
use anyhow::{Context, bail, ensure};
use hipplan::driver::{DriverLog, LogReader};
use hipplan::{AlignedBytes, ImportedGraph, Limits, form, import, plan};
use std::io::Read;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// Most bytes of a plan file; the store's own limit.
const MAX_PLAN_BYTES: u64 = 1 << 30;

/// Endings that mark a graph in a folder. A file that is named itself may have any ending.
const ENDINGS: [&str; 4] = ["json", "hpgraph", "bin", "fb"];

/// Endings of texts, which are looked into: in a folder, those that do not mention the driver are passed over.
const TEXT_ENDINGS: [&str; 2] = ["txt", "log"];

/// Bytes of a log that are read at a time.
const PIECE: usize = 1 << 20;

/// Something to read.
#[derive(Debug, Clone)]
pub(crate) enum Source {
    /// A file that was named; `-` is standard input.
    File(PathBuf),
    /// A file that a folder held.
    InFolder(PathBuf),
    /// A driver line.
    Line(String),
}

impl Source {
    pub(crate) fn name(&self) -> String {
        match self {
            Self::File(path) if path == Path::new("-") => "standard input".to_owned(),
            Self::File(path) | Self::InFolder(path) => path.display().to_string(),
            Self::Line(_) => "--line".to_owned(),
        }
    }

    /// The file, if it is one.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Self::File(path) | Self::InFolder(path) => (path != Path::new("-")).then_some(path),
            Self::Line(_) => None,
        }
    }

    /// Name of what is made of it, without ending.
    pub(crate) fn stem(&self) -> PathBuf {
        match self {
            Self::Line(_) => "line".into(),
            _ => self.path().and_then(Path::file_stem).map_or_else(|| "stdin".into(), PathBuf::from),
        }
    }
}

/// One graph of a source, or what is wrong with it.
pub(crate) struct Input {
    /// Where it comes from; for a graph of a log, with line and direction.
    pub(crate) source: String,
    pub(crate) graph: Result<ImportedGraph, String>,
    /// Its place in the log that it comes from.
    pub(crate) problem: Option<usize>,
}

/// All that a source holds.
pub(crate) struct Contents {
    pub(crate) name: String,
    pub(crate) inputs: Vec<Input>,
    /// What was found in a text with driver lines.
    pub(crate) log: Option<DriverLog>,
}

/// Sources in the order given, lines behind them; folders are walked in order of name. A path that does not exist is an error, a file
/// that cannot be read or is no graph is an input that says so.
pub(crate) fn expand(paths: &[PathBuf], lines: &[String]) -> anyhow::Result<Vec<Source>> {
    let mut sources = Vec::new();
    for path in paths {
        if path == Path::new("-") {
            sources.push(Source::File(path.clone()));
            continue;
        }
        let kind = std::fs::metadata(path).with_context(|| output::path(path))?;
        if kind.is_dir() {
            let mut files = Vec::new();
            walk(path, &mut files, 0)?;
            if files.is_empty() {
                bail!(
                    "{}: the folder holds no file that ends in {}",
                    output::path(path),
                    [&ENDINGS[..], &TEXT_ENDINGS].concat().join(", ")
                );
            }
            sources.extend(files.into_iter().map(Source::InFolder));
        } else {
            sources.push(Source::File(path.clone()));
        }
    }
    sources.extend(lines.iter().cloned().map(Source::Line));
    Ok(sources)
}

fn walk(folder: &Path, files: &mut Vec<PathBuf>, depth: usize) -> anyhow::Result<()> {
    if depth > 32 {
        bail!("{}: folders nest deeper than 32", output::path(folder));
    }
    let entries = std::fs::read_dir(folder).with_context(|| output::path(folder))?;
    let mut entries: Vec<PathBuf> = entries.map(|e| e.map(|e| e.path())).collect::<Result<_, _>>().with_context(|| output::path(folder))?;
    entries.sort();
    for path in entries {
        // Links to files are followed, links to folders are not: they could lead round in circles. What has such a name and is no file, or
        // leads nowhere, is an input that cannot be read, and is told of.
        if std::fs::symlink_metadata(&path).is_ok_and(|m| m.is_dir()) {
            walk(&path, files, depth + 1)?;
        } else if !path.is_dir()
            && path.extension().is_some_and(|e| ENDINGS.iter().chain(&TEXT_ENDINGS).any(|known| e.eq_ignore_ascii_case(known)))
        {
            files.push(path);
        }
    }
    Ok(())
}

/// Opens a file that was named to be read, if it [is one](check_kind).
pub(crate) fn open(path: &Path) -> std::io::Result<std::fs::File> {
    check_kind(path)?;
    std::fs::File::open(path)
}

/// Refuses what was named to be read and is no regular file, before it is opened: a pipe that nobody writes to would be waited for without
/// end, and a device may have no end. What this process was handed open is read whatever it is: standard input, and what a shell names
/// by `<(command)`. That nothing is there, whoever opens it finds out.
pub(crate) fn check_kind(path: &Path) -> std::io::Result<()> {
    if ["/dev/stdin", "/dev/fd", "/proc/self/fd"].iter().any(|open| path.starts_with(open)) {
        return Ok(());
    }
    let Ok(kind) = std::fs::metadata(path).map(|status| status.file_type()) else { return Ok(()) };
    let found = match () {
        () if kind.is_file() => return Ok(()),
        () if kind.is_dir() => "a folder",
        () if kind.is_fifo() => "a pipe",
        () if kind.is_socket() => "a socket",
        () => "a device",
    };
    Err(std::io::Error::other(format!("found {found}, expected a regular file")))
}

/// Reads a source.
pub(crate) fn read(source: &Source, limits: &Limits) -> Contents {
    let name = source.name();
    let found = match source {
        Source::Line(line) => from(line.as_bytes(), limits),
        Source::File(path) if path == Path::new("-") => from(std::io::stdin().lock(), limits),
        Source::File(path) | Source::InFolder(path) => open(path).map_err(|e| e.to_string()).and_then(|f| from(f, limits)),
    };
    let is_text = |path: &Path| path.extension().is_some_and(|e| TEXT_ENDINGS.iter().any(|known| e.eq_ignore_ascii_case(known)));
    let single = |graph| vec![Input { source: name.clone(), graph, problem: None }];
    let (inputs, log) = match found {
        Ok(Found::Graph(graph)) => (single(Ok(*graph)), None),
        Ok(Found::Log(log)) if log.problems.is_empty() => {
            let error = import::one_of(&log, limits).err().map_or_else(String::new, |e| e.to_string());
            (single(Err(error)), Some(log))
        }
        Ok(Found::Log(log)) => {
            let one = |(i, problem): (usize, &hipplan::driver::LoggedProblem)| Input {
                source: match source {
                    Source::Line(_) => format!("{name} {}", problem.problem.direction),
                    _ => format!("{name}:{} {}", problem.line, problem.problem.direction),
                },
                graph: import::graph_of(&log, problem, limits).map_err(|e| e.to_string()),
                problem: Some(i),
            };
            (log.problems.iter().enumerate().map(one).collect(), Some(log))
        }
        Ok(Found::NoLog(_)) if matches!(source, Source::InFolder(path) if is_text(path)) => (Vec::new(), None),
        Ok(Found::NoLog(reason)) | Err(reason) => (single(Err(reason)), None),
    };
    Contents { name, inputs, log }
}

enum Found {
    Graph(Box<ImportedGraph>),
    Log(DriverLog),
    /// Text that does not mention the driver, and is no graph for this reason.
    NoLog(String),
}

/// Reads a graph, or a log of any length.
fn from(mut source: impl Read, limits: &Limits) -> Result<Found, String> {
    let io = |e: std::io::Error| e.to_string();
    let mut piece = vec![0; PIECE];
    let mut got = read_up_to(&mut source, &mut piece).map_err(io)?;
    if got > 0 && form::may_be_log(&piece[..got]) {
        let mut reader = LogReader::new(limits);
        reader.push(&piece[..got]);
        // Enough to say what is wrong with a text that is neither.
        let beginning = piece[..got.min(4096)].to_vec();
        while got == PIECE {
            got = read_up_to(&mut source, &mut piece).map_err(io)?;
            reader.push(&piece[..got]);
        }
        let log = reader.finish();
        if log.coverage.records > 0 {
            return Ok(Found::Log(log));
        }
        let reason = import::import(&beginning, limits).err().map(|e| e.to_string());
        return Ok(Found::NoLog(format!("no MIOpenDriver line in it; {}", reason.unwrap_or_default())));
    }
    piece.truncate(got);
    // One byte more than the limit at most: enough for the importer to name the limit.
    source.take(limits.max_bytes.saturating_add(1)).read_to_end(&mut piece).map_err(io)?;
    import::import(&piece, limits).map(|graph| Found::Graph(Box::new(graph))).map_err(|e| e.to_string())
}

/// Reads a plan file or a graph whole, up to what either may have.
pub(crate) fn read_file(path: &Path) -> anyhow::Result<AlignedBytes> {
    let mut head = [0; 16];
    let mut file = open(path)?;
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

/// Reads one input that must be a graph.
pub(crate) fn read_graph(path: &Path) -> anyhow::Result<(String, ImportedGraph)> {
    let limits = Limits::DEFAULT;
    let mut contents = read(&Source::File(path.to_owned()), &limits);
    if let Some(log) = &contents.log {
        let graph = import::one_of(log, &limits).with_context(|| output::name(&contents.name))?;
        return Ok((contents.name, graph));
    }
    match contents.inputs.pop().map(|input| input.graph) {
        Some(Ok(graph)) => Ok((contents.name, graph)),
        Some(Err(reason)) => bail!("{}: {reason}", output::name(&contents.name)),
        None => bail!("{}: nothing to read", output::name(&contents.name)),
    }
}
