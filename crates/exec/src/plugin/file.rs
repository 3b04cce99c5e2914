//! Whether a file is whole, before the system's loader maps it.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

const HEADER: usize = 64;
const ENTRY: usize = 56;
const LOAD: u32 = 1;

/// Looks at a file that is to be loaded. The system's loader believes what an ELF file says of its own size, and ends the process when it reads
/// behind the end of one that was cut off; at a pipe it waits for ever. Of what is no ELF file for 64 bits, the loader says so itself.
///
/// # Errors
/// What is wrong with the file.
pub(super) fn check(path: &Path) -> Result<(), String> {
    let what = |error: std::io::Error| format!("it cannot be read: {error}");
    let facts = std::fs::metadata(path).map_err(what)?;
    if !facts.is_file() {
        return Err("it is no regular file".to_owned());
    }
    let mut file = File::open(path).map_err(what)?;
    let cut_off = |end: u64| format!("it is cut off: it says that it has at least {end} bytes, and there are {}", facts.len());
    let mut header = [0; HEADER];
    if file.read_exact(&mut header).is_err() {
        return Err(format!("it is no shared library: it has {} bytes", facts.len()));
    }
    // 64 bits, little-endian.
    if !header.starts_with(b"\x7fELF\x02\x01") || number::<2>(&header, 54) != ENTRY as u64 {
        return Ok(());
    }
    let (start, count) = (number::<8>(&header, 32), number::<2>(&header, 56));
    let mut table = vec![0; ENTRY * count as usize];
    let end = start.saturating_add(table.len() as u64);
    if end > facts.len() {
        return Err(cut_off(end));
    }
    file.seek(SeekFrom::Start(start)).and_then(|_| file.read_exact(&mut table)).map_err(what)?;
    for entry in table.as_chunks::<ENTRY>().0 {
        let end = number::<8>(entry, 8).saturating_add(number::<8>(entry, 32));
        if number::<4>(entry, 0) == u64::from(LOAD) && end > facts.len() {
            return Err(cut_off(end));
        }
    }
    Ok(())
}

/// A little-endian number of `N` bytes, inside.
fn number<const N: usize>(bytes: &[u8], at: usize) -> u64 {
    bytes.iter().skip(at).take(N).rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_cut_off_anywhere_is_noticed() {
        let whole = std::fs::read("/proc/self/exe").expect("this program");
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("library.so");
        let check_of = |bytes: &[u8]| {
            std::fs::write(&path, bytes).expect("written");
            check(&path)
        };
        let table = number::<8>(&whole, 32) as usize;
        let entries = whole[table..][..ENTRY * number::<2>(&whole, 56) as usize].as_chunks::<ENTRY>().0;
        let end_of = |entry: &[u8; ENTRY]| number::<8>(entry, 8) + number::<8>(entry, 32);
        let loaded = entries.iter().filter(|entry| number::<4>(*entry, 0) == 1).map(end_of).max();
        let loaded = loaded.expect("segments") as usize;
        assert_eq!(check_of(&whole[..loaded]), Ok(()));
        for len in [loaded - 1, loaded / 2, 4096, table + 1, 64] {
            let error = check_of(&whole[..len]).expect_err("cut off");
            assert!(error.contains("cut off"), "{len}: {error}");
        }
        assert!(check_of(b"").is_err_and(|error| error.contains("0 bytes")));
        // What the loader refuses itself.
        assert_eq!(check_of(&[7; 100]), Ok(()));
        assert!(check(folder.path()).is_err_and(|error| error.contains("no regular file")));
        assert!(check(&folder.path().join("absent")).is_err());
    }
}
