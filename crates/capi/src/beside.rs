//! The `hipplan` command that belongs to this library. Unsafe: the dynamic linker is asked which file this code is from.

use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// `bin/hipplan` of the prefix that this library is installed in, or what the search path has under that name.
pub(crate) fn hipplan_command() -> Option<PathBuf> {
    let prefix = own_file().and_then(|file| Some(file.parent()?.parent()?.join("bin/hipplan")));
    let searched = std::env::var_os("PATH");
    let searched =
        searched.iter().flat_map(std::env::split_paths).filter(|folder| folder.is_absolute()).map(|folder| folder.join("hipplan"));
    prefix.into_iter().chain(searched).find(|path| path.is_file() && !is_this_program(path))
}

/// This library's functions may be in a program of the same name.
fn is_this_program(path: &Path) -> bool {
    let same = |program: PathBuf| Some(std::fs::canonicalize(program).ok()? == std::fs::canonicalize(path).ok()?);
    std::env::current_exe().ok().and_then(same).unwrap_or(true)
}

/// The file that this code was loaded from.
fn own_file() -> Option<PathBuf> {
    let mut info = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    let own = own_file as fn() -> Option<PathBuf> as *const libc::c_void;
    // SAFETY: the address is of this code, and the pointer is to the structure; all zeros are a value of it.
    let info = unsafe {
        if libc::dladdr(own, info.as_mut_ptr()) == 0 {
            return None;
        }
        info.assume_init()
    };
    if info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the linker's text of a file that is loaded as long as this code runs.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    std::fs::canonicalize(OsStr::from_bytes(name.to_bytes())).ok()
}
