//! Shared libraries to be split, and the manifest of a split.

use super::Stage;
use crate::Rng;
use crate::shell::{Shell, patch};
use hipplan_shim::elf::Elf;
use hipplan_shim::fingerprint::Fingerprint;
use hipplan_shim::manifest::Manifest;
use hipplan_shim::private::{self, Request};
use hipplan_shim::wrapper::{Export, Wrapper};
use hipplan_shim::{names, surface};

/// Bytes at the end of a library in which its section headers are.
const TAIL: usize = 2048;

/// Kind 0: bytes as they stand; 1: a library that the bytes choose; 2: the same with bytes of its first 64 KiB changed; 3: of its section
/// headers; 4: a manifest.
pub(super) fn read(input: &[u8]) -> Stage {
    let Some(shell) = Shell::of(input) else { return Stage::Form };
    let (choice, changes) = shell.rest.split_at(shell.rest.len().min(8));
    match shell.kind % 5 {
        0 => split(shell.rest),
        4 => match Manifest::parse(shell.rest) {
            Ok(manifest) => {
                assert_eq!(Manifest::parse(manifest.to_text().as_bytes()), Ok(manifest));
                Stage::Accepted
            }
            Err(_) => Stage::Form,
        },
        kind => {
            let mut bytes = library(&mut Rng::from_bytes(choice));
            if kind == 2 {
                patch(&mut bytes, changes);
            } else if kind == 3 {
                let tail = bytes.len().saturating_sub(TAIL);
                patch(&mut bytes[tail..], changes);
            }
            let stage = split(&bytes);
            assert!(kind != 1 || stage == Stage::Accepted, "a valid library is not split");
            stage
        }
    }
}

/// A library with public names: a wrapper whose private names are spelt so that they are none.
fn library(rng: &mut Rng) -> Vec<u8> {
    let count = 1 + rng.below(12);
    let version = rng.one_in(2).then(|| "MIOPEN_HIP_1".to_owned());
    let export = |i| Export { name: format!("miopen{}{i}", ["Create", "Find", "X_V"][i % 3]), version: version.clone(), hidden: false };
    let nodes = if rng.one_in(4) { vec![vec!["OLD".to_owned()], vec!["NEW".to_owned(), "OLD".to_owned()]] } else { Vec::new() };
    let (soname, private_soname) = ("libMIOpen.so.1".to_owned(), "libother.so.1".to_owned());
    let wrapper = Wrapper { soname, private_soname, nodes, exports: (0..count).map(export).collect() };
    let mut bytes = wrapper.build().expect("a wrapper");
    let suffix = b"_impl\0";
    while let Some(at) = bytes.windows(suffix.len()).position(|w| w == suffix) {
        bytes[at..at + suffix.len()].copy_from_slice(b"_imqx\0");
    }
    bytes
}

fn print(elf: &Elf<'_>, segments: Option<usize>) -> Fingerprint {
    let mut content = |range: std::ops::Range<u64>| {
        // A section without bytes may be anywhere.
        let bytes = if range.is_empty() { &[] } else { &elf.bytes[range.start as usize..range.end as usize] };
        Ok(blake3::hash(bytes))
    };
    Fingerprint::of(elf, segments, &mut content).expect("every section is in the file")
}

fn split(bytes: &[u8]) -> Stage {
    let Ok(elf) = Elf::read(bytes) else { return Stage::Form };
    for (i, symbol) in elf.symbols() {
        let _ = (elf.finds(symbol.name, i), elf.version(i));
    }
    let _ = (elf.build_id(), elf.soname());
    // Whatever was read, a wrapper of it is a library through which every name is found.
    let wrapper = match surface::wrapper_of_stock(&elf) {
        Ok(wrapper) => wrapper,
        Err(error) => {
            assert!(error.to_string().len() < 4096, "{error}");
            return Stage::Meaning;
        }
    };
    let made = wrapper.build().expect("a wrapper");
    let made = Elf::read(&made).expect("a wrapper is a library");
    assert!(made.symbols().all(|(i, s)| !s.is_exported() || made.finds(s.name, i)));
    let has = surface::exports(&made, |n| names::is_public(n).then_some(n)).expect("names are text");
    assert!(wrapper.exports.iter().all(|e| has.contains(e)));

    let request = Request { rename: true, soname: Some(&wrapper.private_soname), runpath: Some(b"$ORIGIN:/opt") };
    let patch = match private::plan(&elf, &request) {
        Ok(patch) => patch,
        Err(error) => {
            assert!(error.to_string().len() < 4096, "{error}");
            return Stage::Meaning;
        }
    };
    // Tables that overlap can be read but not rewritten: the split checks what it made, and refuses.
    let Some(new) = patch.applied(bytes, bytes.len().saturating_mul(4).saturating_add(1 << 16)) else { return Stage::Meaning };
    let Ok(private) = Elf::read(&new) else { return Stage::Meaning };
    let old = print(&elf, None);
    let same = print(&private, Some(elf.segments.len()));
    let is_kept = same.differences(&old).is_empty()
        && same.relocation_differences(&old).is_empty()
        && same.section_differences(&old).is_empty()
        && private.symbols().all(|(i, s)| !s.is_exported() || private.finds(s.name, i));
    if !is_kept {
        return Stage::Meaning;
    }
    assert_eq!(names::soname(&private), Ok(wrapper.private_soname.as_str()));
    assert_eq!(surface::exports(&private, names::public_of).expect("names are text"), wrapper.exports);
    Stage::Accepted
}
