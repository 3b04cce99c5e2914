//! Where a plugin is, and what its user must say of it because the ABI does not.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Which memory a plugin computes in. The ABI does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PluginMemory {
    /// Of the HIP device that is current: what hipDNN's plugins do.
    #[default]
    Device,
    /// Host memory: the plugin serves the CPU device, and gets no stream.
    Host,
}

/// Which arguments `hipdnnEnginePluginCreateExecutionContextFromSerialized` takes where the plugin has the plain serialize function: both
/// forms exist under one name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum StatedHooks {
    /// Nobody said: a plugin that has the plain functions only cannot persist.
    #[default]
    Unstated,
    /// Handle, bytes, context.
    Plain,
    /// Handle, engine config, bytes, context.
    WithConfig,
}

/// A plugin, or a folder of plugins, and what is said of them.
///
/// As text: `PATH`, or `WORD[,WORD]:PATH` with the words `host` ([`PluginMemory::Host`]), `hooks=plain` and `hooks=config`
/// ([`StatedHooks`]). If what stands before the first colon is not all such words, the whole text is a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginSource {
    /// A shared library, or a folder whose `*.so` are taken, one level deep and sorted by name.
    pub path: PathBuf,
    /// Which memory they compute in.
    pub memory: PluginMemory,
    /// Which serialize hooks they have, where that cannot be seen.
    pub hooks: StatedHooks,
}

/// A text that names no source of plugins.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PluginSourceError {
    /// Nothing after the words, or nothing at all.
    #[error("plugin source {0:?} names no path; expected PATH or WORD[,WORD]:PATH, with the words host, hooks=plain and hooks=config")]
    NoPath(String),
    /// Words that contradict each other.
    #[error("plugin source {0:?} states hooks=plain and hooks=config; a plugin has one of them")]
    BothHooks(String),
}

const HOST: &str = "host";
const HOOKS_PLAIN: &str = "hooks=plain";
const HOOKS_CONFIG: &str = "hooks=config";

impl PluginSource {
    /// A file or folder of which nothing is said.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), memory: PluginMemory::default(), hooks: StatedHooks::default() }
    }

    /// A file or folder of plugins that compute in host memory.
    pub fn host(path: impl Into<PathBuf>) -> Self {
        Self { memory: PluginMemory::Host, ..Self::new(path) }
    }

    /// Reads the text form, whose path need not be UTF-8.
    ///
    /// # Errors
    /// There is no path, or the words contradict each other.
    pub fn parse(text: &OsStr) -> Result<Self, PluginSourceError> {
        let shown = || text.to_string_lossy().into_owned();
        let (words, path) = split(text, b':').filter(|(words, _)| words.to_str().is_some_and(are_words)).unzip();
        let path = path.unwrap_or_else(|| text.to_owned());
        let mut source = Self::new(path);
        for word in words.as_ref().and_then(|words| words.to_str()).into_iter().flat_map(|words| words.split(',')) {
            match word {
                HOST => source.memory = PluginMemory::Host,
                HOOKS_PLAIN if source.hooks != StatedHooks::WithConfig => source.hooks = StatedHooks::Plain,
                HOOKS_CONFIG if source.hooks != StatedHooks::Plain => source.hooks = StatedHooks::WithConfig,
                _ => return Err(PluginSourceError::BothHooks(shown())),
            }
        }
        if source.path.as_os_str().is_empty() { Err(PluginSourceError::NoPath(shown())) } else { Ok(source) }
    }

    /// The sources of a list, which semicolons separate; empty ones are passed over.
    ///
    /// # Errors
    /// As [`parse`](Self::parse), for the first source that is none.
    pub fn parse_list(text: &OsStr) -> Result<Vec<Self>, PluginSourceError> {
        let (mut sources, mut rest) = (Vec::new(), text.to_owned());
        loop {
            let (item, next) = split(&rest, b';').map_or((rest.clone(), None), |(item, next)| (item, Some(next)));
            if !item.is_empty() {
                sources.push(Self::parse(&item)?);
            }
            match next {
                Some(next) => rest = next,
                None => return Ok(sources),
            }
        }
    }
}

fn are_words(text: &str) -> bool {
    text.split(',').all(|word| matches!(word, HOST | HOOKS_PLAIN | HOOKS_CONFIG))
}

/// What stands before and after the first of these ASCII characters.
fn split(text: &OsStr, at: u8) -> Option<(OsString, OsString)> {
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStrExt;
        let bytes = text.as_bytes();
        let at = bytes.iter().position(|&b| b == at)?;
        Some((OsStr::from_bytes(&bytes[..at]).to_owned(), OsStr::from_bytes(&bytes[at + 1..]).to_owned()))
    }
    #[cfg(not(unix))]
    {
        let (before, after) = text.to_str()?.split_once(char::from(at))?;
        Some((before.into(), after.into()))
    }
}

impl FromStr for PluginSource {
    type Err = PluginSourceError;

    fn from_str(text: &str) -> Result<Self, PluginSourceError> {
        Self::parse(OsStr::new(text))
    }
}

impl fmt::Display for PluginSource {
    /// As [`PluginSource::parse`] reads it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = (self.memory == PluginMemory::Host).then_some(HOST);
        let hooks = match self.hooks {
            StatedHooks::Unstated => None,
            StatedHooks::Plain => Some(HOOKS_PLAIN),
            StatedHooks::WithConfig => Some(HOOKS_CONFIG),
        };
        match (host, hooks) {
            // A path that starts like words is read as a path when a folder stands before it.
            (None, None) if split(self.path.as_os_str(), b':').is_some_and(|(words, _)| words.to_str().is_some_and(are_words)) => {
                f.write_str("./")?;
            }
            (None, None) => {}
            (Some(word), None) | (None, Some(word)) => write!(f, "{word}:")?,
            (Some(host), Some(hooks)) => write!(f, "{host},{hooks}:")?,
        }
        self.path.display().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stand_before_the_first_colon() {
        let source = |path: &str, memory, hooks| PluginSource { path: path.into(), memory, hooks };
        let (device, host) = (PluginMemory::Device, PluginMemory::Host);
        for (text, expected) in [
            ("/a/b.so", source("/a/b.so", device, StatedHooks::Unstated)),
            ("host:/a", source("/a", host, StatedHooks::Unstated)),
            ("hooks=plain:a", source("a", device, StatedHooks::Plain)),
            ("host,hooks=config:a:b", source("a:b", host, StatedHooks::WithConfig)),
        ] {
            assert_eq!(text.parse(), Ok(expected.clone()), "{text}");
            assert_eq!(expected.to_string(), text);
        }
        // Paths that look like words.
        for (path, text) in [("host:/a", "./host:/a"), ("hooks=plain:a", "./hooks=plain:a")] {
            assert_eq!(source(path, device, StatedHooks::Unstated).to_string(), text);
            assert_eq!(text.parse(), Ok(source(text, device, StatedHooks::Unstated)));
        }
        assert_eq!("hooks=config,host,host:a".parse(), Ok(source("a", host, StatedHooks::WithConfig)));
        // No known words: a path.
        for path in ["hots:/a", "host,:/a", ":a", "Host:/a", "host"] {
            assert_eq!(path.parse(), Ok(source(path, device, StatedHooks::Unstated)), "{path}");
        }
        for bad in ["", "host:", "hooks=plain,host:"] {
            assert!(matches!(bad.parse::<PluginSource>(), Err(PluginSourceError::NoPath(_))), "{bad}");
        }
        for bad in ["hooks=plain,hooks=config:a", "hooks=config,host,hooks=plain:a"] {
            assert!(matches!(bad.parse::<PluginSource>(), Err(PluginSourceError::BothHooks(_))), "{bad}");
        }
    }

    #[test]
    fn semicolons_separate_sources() {
        let list = |text: &str| PluginSource::parse_list(OsStr::new(text));
        assert_eq!(list(""), Ok(vec![]));
        assert_eq!(list(";;"), Ok(vec![]));
        assert_eq!(list("host:a;;b;"), Ok(vec![PluginSource::host("a"), PluginSource::new("b")]));
        assert!(list("a;host:").is_err());
    }

    #[cfg(unix)]
    #[test]
    fn a_path_need_not_be_utf8() {
        use std::os::unix::ffi::OsStrExt;
        let source = PluginSource::parse(OsStr::from_bytes(b"host:/a\xff.so")).expect("a source");
        assert_eq!(source.path.as_os_str().as_bytes(), b"/a\xff.so");
        assert_eq!(source.memory, PluginMemory::Host);
        let source = PluginSource::parse(OsStr::from_bytes(b"\xff:/a")).expect("a path");
        assert_eq!(source.path.as_os_str().as_bytes(), b"\xff:/a");
    }
}
