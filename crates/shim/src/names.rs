//! Which names are public, and what the private library and its names are called.

use crate::elf::Elf;
use crate::error::Unsuitable;

/// What a private name ends with.
pub const SUFFIX: &str = "_impl";

/// Whether a C function of this name belongs to MIOpen's public API: `miopen`, then an upper-case letter, then letters and digits, and
/// at last underscores too (`_V2`); never the suffix of a private name. C++ names are mangled and begin with `_Z`;
/// `miopen_sqlite3_memvfs_init` is MIOpen's own use of a C callback.
pub fn is_public(name: &[u8]) -> bool {
    let Some(rest) = name.strip_prefix(b"miopen") else { return false };
    rest.first().is_some_and(u8::is_ascii_uppercase)
        && rest.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'_')
        && !name.ends_with(SUFFIX.as_bytes())
}

/// The public name of a private one.
pub fn public_of(name: &[u8]) -> Option<&[u8]> {
    name.strip_suffix(SUFFIX.as_bytes()).filter(|n| is_public(n))
}

/// The private name of a public one.
pub fn private_of(name: &[u8]) -> Vec<u8> {
    [name, SUFFIX.as_bytes()].concat()
}

/// The private library's SONAME, which is also its file name: `_private` before `.so`.
///
/// # Errors
/// If the SONAME is no file name of a shared library.
pub fn private_soname(soname: &str) -> Result<String, Unsuitable> {
    let (stem, version) = soname.split_once(".so").filter(|(stem, _)| !stem.is_empty()).unwrap_or_default();
    if stem.is_empty() || !(version.is_empty() || version.starts_with('.')) || !is_file_name(soname) {
        return Err(Unsuitable::Soname(soname.to_owned()));
    }
    Ok(format!("{stem}_private.so{version}"))
}

/// Whether a SONAME can be a file name of one component, without surprises.
pub fn is_file_name(soname: &str) -> bool {
    !soname.is_empty() && soname.len() <= 200 && soname.bytes().all(|b| b.is_ascii_graphic() && b != b'/') && !soname.starts_with('.')
}

/// The SONAME of a library, as a file name.
///
/// # Errors
/// If there is none, or it is no file name.
pub fn soname<'a>(elf: &Elf<'a>) -> Result<&'a str, Unsuitable> {
    let soname = elf.soname().ok_or(Unsuitable::NoSoname)?;
    let text = std::str::from_utf8(soname).map_err(|_| Unsuitable::Soname(String::from_utf8_lossy(soname).into_owned()))?;
    if is_file_name(text) { Ok(text) } else { Err(Unsuitable::Soname(text.to_owned())) }
}

/// The exported C functions of a library whose names `is_wanted`, as indices of the dynamic symbols.
pub fn exported<'e>(elf: &'e Elf<'_>, is_wanted: fn(&[u8]) -> bool) -> impl Iterator<Item = u32> + 'e {
    elf.symbols().filter(move |(_, s)| s.is_exported() && s.is_function() && is_wanted(s.name)).map(|(i, _)| i)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_names_are_those_of_the_c_api() {
        for name in ["miopenCreate", "miopenBatchNormalizationForwardInference_V2", "miopenGet4dTensorDescriptor"] {
            assert!(is_public(name.as_bytes()), "{name}");
        }
        for name in ["miopen_sqlite3_memvfs_init", "miopenCreate_impl", "miopen", "_ZN6miopen6HandleC1Ev", "hipMalloc", "miopen2Create"] {
            assert!(!is_public(name.as_bytes()), "{name}");
        }
        assert_eq!(public_of(b"miopenCreate_impl"), Some(&b"miopenCreate"[..]));
        assert_eq!(public_of(b"miopenCreate"), None);
        assert_eq!(public_of(b"_ZN6miopen4x_implEv_impl"), None);
    }

    #[test]
    fn the_private_soname_comes_from_the_public_one() {
        assert_eq!(private_soname("libMIOpen.so.1"), Ok("libMIOpen_private.so.1".to_owned()));
        assert_eq!(private_soname("libMIOpen.so"), Ok("libMIOpen_private.so".to_owned()));
        assert_eq!(private_soname("libMIOpen-1a2b3c4d.so.1.0"), Ok("libMIOpen-1a2b3c4d_private.so.1.0".to_owned()));
        for bad in ["libMIOpen", "../libMIOpen.so", ".so.1", "", "libMIOpen.sofa"] {
            assert!(private_soname(bad).is_err(), "{bad}");
        }
    }
}
