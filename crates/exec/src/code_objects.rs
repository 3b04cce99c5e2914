//! Where the code objects come from that a plan names by content.

use hipplan_serialize::{AlignedBytes, Digest};
use hipplan_store::{Lookup, Store};

/// Gives code objects by content. Asked while a plan is bound, and only for what the process has not loaded yet.
pub trait CodeObjects: Sync {
    /// The bytes of a code object. Whoever loads them hashes them again.
    ///
    /// # Errors
    /// Why it cannot be had, for a message.
    fn code_object(&self, digest: &Digest) -> Result<AlignedBytes, String>;
}

impl CodeObjects for Store {
    fn code_object(&self, digest: &Digest) -> Result<AlignedBytes, String> {
        match self.get_blob(digest) {
            Lookup::Hit(blob) => Ok(blob.into_aligned()),
            Lookup::Miss(miss) => Err(format!("the store {}: {miss}", self.root().display())),
        }
    }
}

/// Code objects that are at hand, such as those of a plan that no store could keep.
impl CodeObjects for Vec<Vec<u8>> {
    fn code_object(&self, digest: &Digest) -> Result<AlignedBytes, String> {
        let of_size = self.iter().filter(|bytes| bytes.len() as u64 == digest.size);
        let found = of_size.into_iter().find(|bytes| Digest::of(bytes) == *digest);
        found
            .map(|bytes| hipplan_serialize::aligned::aligned_copy(bytes))
            .ok_or_else(|| format!("it is none of the {} at hand", self.len()))
    }
}

/// What a plan has until it is told where its code objects are.
pub(crate) struct NoCodeObjects;

impl CodeObjects for NoCodeObjects {
    fn code_object(&self, _: &Digest) -> Result<AlignedBytes, String> {
        Err("nobody said where code objects are; open the plan with Plan::with_code_objects and its store".to_owned())
    }
}
