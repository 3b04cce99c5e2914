//! Execute-time shapes, as the host gives them. Unsafe: arrays of pointers to arrays.

use crate::failure::Failure;
use crate::pointers::array;
use hipplan_exec::VariantPack;
use hipplan_serialize::Limits;

/// Overrides of shapes: `count` elements in each array, of which `lengths` has the ranks.
///
/// Whoever has one promised, as long as it is used: each array is null or has `count` elements, and each array that `shapes` and `strides`
/// point to is null or has as many as `lengths` says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Overrides {
    pub(crate) count: usize,
    pub(crate) uids: *const i64,
    pub(crate) lengths: *const u32,
    pub(crate) shapes: *const *const i64,
    pub(crate) strides: *const *const i64,
}

impl Overrides {
    /// None: an ordinary execution.
    pub(crate) const NONE: Self =
        Self { count: 0, uids: std::ptr::null(), lengths: std::ptr::null(), shapes: std::ptr::null(), strides: std::ptr::null() };

    /// Adds them to a pack, which copies them. Whether they fit the graph is for the plan to say.
    ///
    /// # Safety
    /// The promise of the type holds.
    pub(crate) unsafe fn add_to(&self, pack: &mut VariantPack<'_>) -> Result<(), Failure> {
        // SAFETY: by the caller's promise.
        let uids = unsafe { array(self.uids, self.count, "the list of overridden uids") }?;
        // SAFETY: as above.
        let lengths = unsafe { array(self.lengths, self.count, "the list of ranks of overrides") }?;
        // SAFETY: as above.
        let shapes = unsafe { array(self.shapes, self.count, "the list of overriding shapes") }?;
        // SAFETY: as above.
        let strides = unsafe { array(self.strides, self.count, "the list of overriding strides") }?;
        for (((&uid, &length), &shape), &stride) in uids.iter().zip(lengths).zip(shapes).zip(strides) {
            let rank = length as usize;
            if rank > Limits::DEFAULT.max_rank {
                return Err(Failure::invalid(format!(
                    "the override of uid {uid} has rank {rank}, the most is {}",
                    Limits::DEFAULT.max_rank
                )));
            }
            // SAFETY: as above; the rank is the element's of `lengths`.
            let shape = unsafe { array(shape, rank, "the shape of an override") }?;
            // SAFETY: as above.
            let stride = unsafe { array(stride, rank, "the strides of an override") }?;
            pack.override_shape(uid, shape, stride);
        }
        Ok(())
    }
}
