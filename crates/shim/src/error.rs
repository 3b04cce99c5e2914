//! What can go wrong, one variant a cause.

use std::path::{Path, PathBuf};

/// Why a file cannot be split, or cannot be part of a split.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unsuitable {
    /// The magic is not there, or the file is shorter than a file header.
    #[error("not an ELF file")]
    NotElf,
    /// Another class, byte order or machine.
    #[error("not for x86-64: ELF class {class} (expected 2), data encoding {data} (expected 1), machine {machine} (expected 62)")]
    Machine {
        /// `EI_CLASS`.
        class: u8,
        /// `EI_DATA`.
        data: u8,
        /// `e_machine`.
        machine: u16,
    },
    /// A program, an object file or a core dump.
    #[error("not a shared library: ELF type {0} (expected 3); a static MIOpen cannot be split")]
    NotShared(u16),
    /// No dynamic section.
    #[error("it has no dynamic section: it is static, or holds only debug information")]
    Static,
    /// No section headers.
    #[error("it has no section headers, by which the tables to be rewritten are found; use the file as its vendor ships it")]
    NoSections,
    /// Relocations in the code.
    #[error("it has relocations in read-only segments (DT_TEXTREL); build it with -fPIC")]
    TextRelocations,
    /// Relocations of a form that x86-64 does not use.
    #[error("it has dynamic relocations without addends, or compressed ones; x86-64 uses DT_RELA")]
    RelWithoutAddend,
    /// No hash table.
    #[error("it has neither DT_GNU_HASH nor DT_HASH, so nothing could find its symbols")]
    NoHash,
    /// The file contradicts itself or does what is not supported.
    #[error("unsupported or damaged layout: {0}")]
    Layout(&'static str),
    /// The name of a dynamic symbol is not in the string table.
    #[error("the name of dynamic symbol {0} is not in the string table")]
    SymbolName(u32),
    /// The version of a dynamic symbol is not in the tables.
    #[error("the version number of dynamic symbol {0} is not defined")]
    SymbolVersion(u32),
    /// A relocation names a symbol that is not there.
    #[error("the relocation at {address:#x} refers to dynamic symbol {symbol}, which does not exist")]
    RelocationSymbol {
        /// `r_offset`.
        address: u64,
        /// The index.
        symbol: u32,
    },
    /// No `DT_SONAME`.
    #[error("it has no SONAME, so nothing says what its wrapper must be called")]
    NoSoname,
    /// A SONAME that is no file name of a shared library.
    #[error("its SONAME {0:?} is not a file name with `.so` in it")]
    Soname(String),
    /// No public names.
    #[error("it exports no C function whose name begins with `miopen`: it is not MIOpen")]
    NoNames,
    /// Both a name and its private form.
    #[error("it exports both {0} and {0}_impl")]
    Collision(String),
    /// The dynamic section is full.
    #[error("its dynamic section has no free entry for a RUNPATH; split it in place instead")]
    NoFreeDynamic,
    /// More names than the shim library takes.
    #[error("it exports {0} names, expected at most 4095: more than a wrapper can have")]
    TooManyNames(usize),
    /// A table would outgrow what its format can say.
    #[error("{0} would become too large for its format")]
    TooLarge(&'static str),
    /// A wrapper whose private library is not there.
    #[error("it is already the wrapper of a split (it needs {needed}), but {looked} is not there; restore the original first")]
    WrapperAlone {
        /// The name in `DT_NEEDED`.
        needed: String,
        /// Where it should be.
        looked: PathBuf,
    },
    /// A wrapper with functions of its own.
    #[error("it is the wrapper of another split and exports {0}, which its private library does not have; a new wrapper would lose it")]
    WrapperOnly(String),
    /// The private half of a split.
    #[error("it is the private library of a split (it exports {0}); name the wrapper instead")]
    IsPrivate(String),
}

/// Why a split, or its undoing, was not done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShimError {
    /// The file cannot be split.
    #[error("{path}: cannot be split: {reason}")]
    Unsuitable {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: Unsuitable,
    },
    /// A file cannot be read, written, renamed or removed.
    #[error("{path}: {action}: {source}")]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
    /// The wrapper could not be written.
    #[error("the wrapper cannot be generated: {0}")]
    Wrapper(String),
    /// What was made does not hold what it must; nothing was put in place.
    #[error(
        "{path}: what was made is wrong: {what}; nothing was changed. This is a fault of hipplan: please report it with the library's name and version"
    )]
    SelfCheck {
        /// Where it was to go.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// No shim library.
    #[error("{name} was not found; looked in {looked}; name its folder with --lib-dir or the file with --shim-lib")]
    NoShimLibrary {
        /// What was looked for.
        name: &'static str,
        /// Where.
        looked: String,
    },
    /// What was found is not the shim library.
    #[error("{path}: not the shim library: {reason}")]
    NotShimLibrary {
        /// The file.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// No split there.
    #[error("{path}: no split here: there is no {manifest}")]
    NoManifest {
        /// The folder.
        path: PathBuf,
        /// Name of the file that is missing.
        manifest: &'static str,
    },
    /// A manifest that cannot be read.
    #[error("{path}: not a manifest of a split: {reason}")]
    Manifest {
        /// The file.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// Something else has the place of a file of the split.
    #[error("{path}: is in the way and no part of a split; move it, or choose another prefix")]
    InTheWay {
        /// What is there.
        path: PathBuf,
    },
    /// The prefix is where the original is.
    #[error("{path}: the original is in this folder; use --in-place, or another prefix")]
    SameFolder {
        /// The folder.
        path: PathBuf,
    },
    /// A library that is to be split in place lies in another folder than the path says.
    #[error("{path}: leads to {real}, in another folder; to split that one in place, name it")]
    Elsewhere {
        /// What was named.
        path: PathBuf,
        /// The file.
        real: PathBuf,
    },
    /// The folder cannot stand in a search path.
    #[error("{path}: a `:` or `$` in the name of this folder would mean something else in a library's search path; use another folder")]
    SearchPath {
        /// The folder.
        path: PathBuf,
    },
    /// What was found is not the runtime library.
    #[error("{path}: not the runtime library: {reason}; remove it, or name the folder of another one with --lib-dir")]
    NotRuntimeLibrary {
        /// The file.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// The backup is not what was put away.
    #[error("{path}: the backup is {found}, expected {expected}; nothing was changed. Install MIOpen again to get the original back")]
    Backup {
        /// The backup.
        path: PathBuf,
        /// What it is.
        found: String,
        /// What it was.
        expected: String,
    },
    /// Two commands at once.
    #[error("{path}: another command is changing this split; wait for it to end")]
    Busy {
        /// The folder.
        path: PathBuf,
    },
    /// A process that cannot be looked at.
    #[error("process {pid}: {source}; it must exist and be yours")]
    Process {
        /// Its id.
        pid: u32,
        /// What the system said.
        source: std::io::Error,
    },
}

/// Attaches a path and an action to an I/O error.
pub(crate) trait At<T> {
    fn at(self, path: &Path, action: &'static str) -> Result<T, ShimError>;
}

impl<T> At<T> for std::io::Result<T> {
    fn at(self, path: &Path, action: &'static str) -> Result<T, ShimError> {
        self.map_err(|source| ShimError::Io { path: path.to_owned(), action, source })
    }
}
