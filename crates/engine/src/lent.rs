//! Bytes that the host reads until it gives them back: details of an engine, serialised contexts.
//!
//! They are found again by their address alone, so that whatever the host gives back is either what it was lent or refused.

use crate::failure::Failure;
use hipplan_engine_abi::types::ConstData;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// By address.
static LENT: Mutex<BTreeMap<usize, Box<[u8]>>> = Mutex::new(BTreeMap::new());

/// Keeps bytes for the host; at least one.
pub(crate) fn lend(bytes: Box<[u8]>) -> ConstData {
    let lent = ConstData::of(&bytes);
    LENT.lock().unwrap_or_else(PoisonError::into_inner).insert(bytes.as_ptr().addr(), bytes);
    lent
}

/// Frees what was lent. Null is nothing to free.
pub(crate) fn give_back(lent: ConstData, what: &str) -> Result<(), Failure> {
    if lent.ptr.is_null() {
        return Ok(());
    }
    match LENT.lock().unwrap_or_else(PoisonError::into_inner).remove(&lent.ptr.addr()) {
        Some(_) => Ok(()),
        None => Err(Failure::bad_param(format!("{what}: {:p} is none that this plugin has given out, or is given back again", lent.ptr))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_given_back_once() {
        let lent = lend(vec![1, 2, 3].into_boxed_slice());
        assert_eq!(lent.size, 3);
        // Not by a pointer into it.
        let inside = ConstData { ptr: lent.ptr.wrapping_byte_add(1), size: 2 };
        assert!(give_back(inside, "bytes").is_err());
        assert!(give_back(lent, "bytes").is_ok());
        assert!(give_back(lent, "bytes").is_err());
        assert!(give_back(ConstData::EMPTY, "bytes").is_ok());
    }
}
