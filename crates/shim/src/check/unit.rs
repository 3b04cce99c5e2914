//! The files of a split, opened once for all checks.

use crate::elf::{Elf, Relocation};
use crate::error::ShimError;
use crate::file::{self, Mapped};
use crate::fingerprint::Fingerprint;
use crate::locate;
use crate::manifest::{Manifest, Mode};
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub(super) struct Unit {
    pub(super) folder: PathBuf,
    pub(super) manifest: Manifest,
    wrapper: Result<Mapped, String>,
    private: Result<Mapped, String>,
    shim: Result<Mapped, String>,
    private_print: OnceCell<Result<Fingerprint, String>>,
    original: OnceCell<Original>,
}

/// What became of the library that was split.
#[derive(Clone, Debug)]
pub(super) enum Original {
    /// It is there and unchanged: what it must have kept, taken from itself.
    Same(Box<Fingerprint>),
    /// Something else has its place.
    Other(String),
    /// It is not there.
    Gone(String),
}

impl Unit {
    pub(super) fn open(folder: &Path, manifest: Manifest) -> Self {
        let open = |name: &str| Mapped::open(&folder.join(name)).map_err(|e| e.to_string());
        Self {
            wrapper: open(&manifest.wrapper.name),
            private: open(&manifest.private.file.name),
            shim: open(&manifest.shim.name),
            folder: folder.to_owned(),
            manifest,
            private_print: OnceCell::new(),
            original: OnceCell::new(),
        }
    }

    pub(super) fn wrapper(&self) -> Result<Elf<'_>, String> {
        read(&self.wrapper)
    }

    pub(super) fn private(&self) -> Result<Elf<'_>, String> {
        read(&self.private)
    }

    pub(super) fn shim(&self) -> Result<Elf<'_>, String> {
        read(&self.shim)
    }

    /// Where the library that was split should be.
    pub(super) fn original_path(&self) -> PathBuf {
        match (&self.manifest.mode, &self.manifest.backup) {
            (Mode::InPlace, Some(backup)) => self.folder.join(backup),
            _ => self.manifest.input.path.clone(),
        }
    }

    /// What the private library is.
    pub(super) fn private_print(&self) -> Result<Fingerprint, String> {
        let print = || {
            let mapped = self.private.as_ref().map_err(Clone::clone)?;
            let elf = self.private()?;
            let segments = self.manifest.private.fingerprint.segments;
            Fingerprint::of(&elf, Some(segments), &mut |range| mapped.digest(range)).map_err(|e| e.to_string())
        };
        self.private_print.get_or_init(print).clone()
    }

    /// The original, as far as it can be reached.
    pub(super) fn original(&self) -> &Original {
        self.original.get_or_init(|| {
            let path = self.original_path();
            let input = &self.manifest.input;
            let found = match file::digest(&path) {
                Err(error) => return Original::Gone(error.to_string()),
                Ok(found) => found,
            };
            if found.0 != input.size || found.1.to_hex().as_str() != input.blake3 {
                let (path, size) = (path.display(), found.0);
                return Original::Other(format!(
                    "{path}: {size} bytes, BLAKE3 {}; {} bytes, {} were split",
                    found.1.to_hex(),
                    input.size,
                    input.blake3
                ));
            }
            let print = || -> Result<Fingerprint, ShimError> {
                let mapped = Mapped::open(&path)?;
                Fingerprint::of(&locate::read(&mapped)?, None, &mut |range| mapped.digest(range))
            };
            print().map_or_else(|e| Original::Other(e.to_string()), |print| Original::Same(Box::new(print)))
        })
    }
}

fn read(mapped: &Result<Mapped, String>) -> Result<Elf<'_>, String> {
    let mapped = mapped.as_ref().map_err(Clone::clone)?;
    locate::read(mapped).map_err(|e| e.to_string())
}

/// The relocations of a library by the address that they fill.
pub(super) fn relocations_by_address(elf: &Elf<'_>) -> BTreeMap<u64, Relocation> {
    elf.relocations().map(|r| (r.address, r)).collect()
}

pub(super) fn text(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}
