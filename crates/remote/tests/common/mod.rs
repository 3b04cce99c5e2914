//! What the tests of a remote share.

#![allow(dead_code, clippy::unwrap_used, reason = "every test program uses a part of it, and unwraps as tests do")]

use hipplan_remote::{Options, Remote};
use hipplan_store::{EntryKind, RemoteTier};
use std::time::Duration;

/// A name of an entry.
pub(crate) fn name(of: u8) -> [u8; 32] {
    std::array::from_fn(|at| of.wrapping_mul(31).wrapping_add(at as u8))
}

/// Bytes that do not compress.
pub(crate) fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64 ^ length as u64;
    (0..length)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        })
        .collect()
}

/// Options of a test that is about something other than time: this machine may be busy.
pub(crate) fn unhurried() -> Options {
    let mut options = Options::default();
    options.connect = Duration::from_secs(60);
    options.in_time = Duration::from_secs(60);
    options.patience = Duration::from_secs(60);
    options.cool_down = Duration::from_secs(3600);
    options.longest_cool_down = Duration::from_secs(3600);
    options
}

/// The same with settings that lead to a server.
pub(crate) fn unhurried_with(settings: Vec<(String, String)>) -> Options {
    let mut options = unhurried();
    options.settings = settings;
    options
}

pub(crate) fn open(address: &str, options: Options) -> Remote {
    Remote::open(address, options).unwrap()
}

/// Puts and gets an entry of every kind, and one that is not there.
pub(crate) fn there_and_back(remote: &Remote) {
    for (at, kind) in [EntryKind::Blob, EntryKind::Plan, EntryKind::PlanRecord, EntryKind::Selection].into_iter().enumerate() {
        let at = at as u8;
        for (name, entry) in [(name(at), noise(100)), (name(at + 10), vec![at; 3 << 20]), (name(at + 20), noise(1 << 20))] {
            assert_eq!(remote.get(kind, &name, 4 << 20).unwrap(), None, "{kind:?} {at} is not there before it is put");
            remote.put(kind, &name, &entry).unwrap();
            assert_eq!(remote.get(kind, &name, 4 << 20).unwrap().as_ref(), Some(&entry), "{kind:?} {at}");
        }
    }
}
