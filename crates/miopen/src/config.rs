//! The environment variables, read once when a wrapper attaches with forwarding on.

use crate::routing::Denials;
use std::ffi::{CStr, CString, OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::sync::OnceLock;

/// Turns forwarding on.
pub const FORWARDING: &CStr = c"MIOPEN_HIPDNN_FORWARDING";
/// What is not forwarded nevertheless: [`Denials`].
pub const DISABLE: &str = "MIOPEN_DISABLE_HIPDNN_FOR";
/// Folders of stores and bundles, `:` between them; the first, if it is a folder, is written to.
pub const STORE: &str = "HIPPLAN_MIOPEN_STORE";
/// What happens to a problem without a stored plan: [`Miss`].
pub const MISS: &str = "HIPPLAN_MIOPEN_MISS";
/// `1`: the miss policy `compile` also compiles the plans for other scalars than alpha 1 and beta 0; `0`: it does not. Not set: for volumes only.
pub const SCALED: &str = "HIPPLAN_MIOPEN_SCALED";
/// Folder into which problems are recorded.
pub const RECORD: &str = "HIPPLAN_MIOPEN_RECORD";
/// `1`: a line for every call.
pub const TRACE: &str = "HIPPLAN_MIOPEN_TRACE";
/// `1`: counters on standard error at exit; else the file they are written to.
pub const REPORT: &str = "HIPPLAN_MIOPEN_REPORT";
/// The file of `libhipplan.so.0`.
pub const LIBRARY: &str = "HIPPLAN_LIBRARY";
/// MIOpen's own.
pub const LOG_LEVEL: &str = "MIOPEN_LOG_LEVEL";

/// What happens to a problem without a stored plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Miss {
    /// MIOpen answers it.
    #[default]
    Private,
    /// A plan is compiled and stored, by a query call.
    Compile,
    /// The call fails.
    Error,
}

/// Where the counters go at exit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Report {
    /// To standard error.
    Stderr,
    /// To this file, which is replaced.
    File(PathBuf),
}

/// All settings.
#[derive(Debug, Default)]
pub struct Config {
    /// Folders of stores, and bundles; none: those that `libhipplan.so.0` uses by default.
    pub stores: Vec<CString>,
    /// What happens without a plan.
    pub miss: Miss,
    /// [`Miss::Compile`] compiles the plans for other scalars, too; none: for three spatial dimensions only.
    pub scaled: Option<bool>,
    /// Where problems are recorded.
    pub record: Option<PathBuf>,
    /// A line for every call.
    pub trace: bool,
    /// Where the counters go.
    pub report: Option<Report>,
    /// The library to open instead of the one beside this one.
    pub library: Option<CString>,
    /// `MIOPEN_LOG_LEVEL` where it is a number.
    pub log_level: u64,
    /// What the user forbids.
    pub denials: Denials,
    /// The first variable found that changes how MIOpen convolves in ways that a stored plan knows nothing of.
    pub steered_by: Option<String>,
}

impl Config {
    /// MIOpen's levels 1 (quiet) and 2 (fatal) hide warnings and failures.
    pub fn quiet(&self) -> bool {
        matches!(self.log_level, 1 | 2)
    }

    /// Reads `environment`; what is not understood becomes a warning in the second result.
    pub fn read(environment: impl IntoIterator<Item = (OsString, OsString)>) -> (Self, Vec<String>) {
        let mut warnings = Vec::new();
        let mut config = Self::default();
        let mut store = OsString::new();
        for (name, value) in environment {
            if value.is_empty() {
                continue;
            }
            let Some(name) = name.to_str() else { continue };
            match name {
                DISABLE => config.denials = Denials::parse(&value.to_string_lossy(), &mut warnings),
                STORE => store = value,
                MISS => match value.to_str() {
                    Some(word) if word.eq_ignore_ascii_case("private") => config.miss = Miss::Private,
                    Some(word) if word.eq_ignore_ascii_case("compile") => config.miss = Miss::Compile,
                    Some(word) if word.eq_ignore_ascii_case("error") => config.miss = Miss::Error,
                    _ => warnings.push(format!("{MISS}={}: expected private, compile or error; taken as private", value.display())),
                },
                SCALED => match switch(value.as_bytes()) {
                    Some(on) => config.scaled = Some(on),
                    None => warnings.push(format!("{SCALED}={}: expected 1 or 0; taken as not set", value.display())),
                },
                RECORD => config.record = Some(value.into()),
                TRACE => match switch(value.as_bytes()) {
                    Some(on) => config.trace = on,
                    None => warnings.push(format!("{TRACE}={}: expected 1 or 0; taken as 0", value.display())),
                },
                REPORT => {
                    config.report = match switch(value.as_bytes()) {
                        Some(true) => Some(Report::Stderr),
                        Some(false) => None,
                        None => Some(Report::File(value.into())),
                    }
                }
                LIBRARY => config.library = CString::new(value.into_vec()).ok(),
                LOG_LEVEL => config.log_level = number(&value).unwrap_or(0),
                _ if config.steered_by.is_none() && steers(name, &value) => config.steered_by = Some(name.to_owned()),
                _ => {}
            }
        }
        let layers: Vec<&[u8]> = store.as_bytes().split(|&byte| byte == b':').filter(|layer| !layer.is_empty()).collect();
        config.stores = layers.into_iter().filter_map(|layer| CString::new(layer).ok()).collect();
        (config, warnings)
    }
}

/// MIOpen's spellings of on and off.
pub fn switch(value: &[u8]) -> Option<bool> {
    let is = |words: &[&str]| words.iter().any(|word| value.eq_ignore_ascii_case(word.as_bytes()));
    if is(&["1", "on", "yes", "true", "enable", "enabled"]) {
        Some(true)
    } else if is(&["0", "off", "no", "false", "disable", "disabled"]) {
        Some(false)
    } else {
        None
    }
}

/// A number as MIOpen reads it: decimal, `0x`, or octal with a leading 0.
fn number(value: &OsStr) -> Option<u64> {
    let text = value.to_str()?.trim();
    let lower = text.to_ascii_lowercase();
    if let Some(digits) = lower.strip_prefix("0x") {
        return u64::from_str_radix(digits, 16).ok();
    }
    match lower.strip_prefix('0') {
        Some(digits) if !digits.is_empty() => u64::from_str_radix(digits, 8).ok(),
        _ => lower.parse().ok(),
    }
}

/// If a variable changes what MIOpen would compute or choose, so that convolutions are its own.
fn steers(name: &str, value: &OsStr) -> bool {
    match name {
        // 1 is NONE, by number or by name.
        "MIOPEN_FIND_ENFORCE" => !matches!(number(value), Some(0 | 1)) && !value.eq_ignore_ascii_case("none"),
        "MIOPEN_CHECK_NUMERICS" => number(value) != Some(0),
        "MIOPEN_DEBUG_COMPILE_ONLY" => switch(value.as_bytes()) != Some(false),
        "MIOPEN_DEVICE_ARCH" | "MIOPEN_DEVICE_CU" => true,
        // The second form overrides attributes behind the getter's back.
        _ => ["MIOPEN_DEBUG_CONV_", "MIOPEN_DEBUG_CONVOLUTION_", "MIOPEN_DEBUG_FIND_"].iter().any(|prefix| name.starts_with(prefix)),
    }
}

static CONFIG: OnceLock<Config> = OnceLock::new();

/// The settings; before a wrapper has attached with forwarding on, the defaults.
pub fn get() -> &'static Config {
    static DEFAULT: OnceLock<Config> = OnceLock::new();
    CONFIG.get().unwrap_or_else(|| DEFAULT.get_or_init(Config::default))
}

/// Reads the process's environment, once; the warnings are those of the first time.
pub fn init() -> (&'static Config, Vec<String>) {
    let mut warnings = Vec::new();
    let config = CONFIG.get_or_init(|| {
        let (config, found) = Config::read(std::env::vars_os());
        warnings = found;
        warnings.extend(config.steered_by.iter().map(|name| format!("{name} is set: MIOpen itself answers all convolutions")));
        config
    });
    (config, warnings)
}

#[cfg(test)]
mod tests {
    use super::{Config, Miss, Report, number, switch};
    use std::ffi::OsStr;
    use std::path::Path;

    fn read(environment: &[(&str, &str)]) -> (Config, Vec<String>) {
        Config::read(environment.iter().map(|(name, value)| (name.into(), value.into())))
    }

    fn stores(environment: &[(&str, &str)]) -> Vec<String> {
        read(environment).0.stores.iter().map(|store| store.to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn numbers_are_read_as_miopen_does() {
        let read = |text: &str| number(OsStr::new(text));
        assert_eq!([read("6"), read("0x10"), read("010"), read("0"), read(" 7 ")], [6, 16, 8, 0, 7].map(Some));
        assert_eq!([read("x"), read(""), read("-1"), read("0x"), read("99999999999999999999")], [None; 5]);
        assert_eq!([switch(b"YES"), switch(b"oFF"), switch(b"2"), switch(b"")], [Some(true), Some(false), None, None]);
    }

    #[test]
    fn stores_are_those_of_one_variable_or_the_librarys_own() {
        assert_eq!(stores(&[("HIPPLAN_STORE", "s"), ("HIPPLAN_MIOPEN_STORE", ":/a:b::")]), ["/a", "b"]);
        assert!(stores(&[("HOME", "/home/a"), ("HIPPLAN_STORE", "s"), ("HIPPLAN_MIOPEN_STORE", ":")]).is_empty());
    }

    #[test]
    fn settings_are_read() {
        let (config, warnings) = read(&[
            ("HIPPLAN_MIOPEN_MISS", "Compile"),
            ("HIPPLAN_MIOPEN_RECORD", "/r"),
            ("HIPPLAN_MIOPEN_TRACE", "on"),
            ("HIPPLAN_MIOPEN_REPORT", "/report"),
            ("HIPPLAN_LIBRARY", "/l.so"),
            ("MIOPEN_LOG_LEVEL", "2"),
            ("MIOPEN_DEBUG_CONV_FFT", "1"),
        ]);
        assert!(warnings.is_empty());
        assert_eq!((config.miss, config.trace, config.log_level, config.quiet()), (Miss::Compile, true, 2, true));
        assert_eq!(config.record.as_deref(), Some(Path::new("/r")));
        assert_eq!(config.report, Some(Report::File("/report".into())));
        assert_eq!(config.library.as_deref(), Some(c"/l.so"));
        assert_eq!(config.steered_by.as_deref(), Some("MIOPEN_DEBUG_CONV_FFT"));
        assert_eq!(read(&[("HIPPLAN_MIOPEN_REPORT", "1")]).0.report, Some(Report::Stderr));
        assert_eq!(read(&[("HIPPLAN_MIOPEN_REPORT", "off")]).0.report, None);
        assert_eq!(read(&[("HIPPLAN_MIOPEN_MISS", "error")]).0.miss, Miss::Error);
    }
}
