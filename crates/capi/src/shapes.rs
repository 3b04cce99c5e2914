//! The shapes of one execution, as C gives them. Unsafe: lists are believed to be as long as the header says.

use crate::failure::Failure;
use crate::types::hipplan_execute_options_t;
use hipplan_exec::VariantPack;

/// Dims of a tensor that are read: more than any graph has.
const MOST_DIMS: u32 = 255;

/// Four lists of one length.
#[derive(Clone, Copy)]
pub(crate) struct Shapes {
    count: usize,
    uids: *const i64,
    ranks: *const u32,
    dims: *const *const i64,
    strides: *const *const i64,
}

impl Shapes {
    /// No shape.
    pub(crate) const NONE: Self =
        Self { count: 0, uids: std::ptr::null(), ranks: std::ptr::null(), dims: std::ptr::null(), strides: std::ptr::null() };

    pub(crate) fn of(options: &hipplan_execute_options_t) -> Self {
        let &hipplan_execute_options_t { override_count, override_uids, override_ranks, override_dims, override_strides, .. } = options;
        Self { count: override_count, uids: override_uids, ranks: override_ranks, dims: override_dims, strides: override_strides }
    }

    /// Puts them into a pack, which says on execution whether they can be had. `bindings` are as many as the caller has bound.
    ///
    /// # Safety
    /// Each list that is not null has `count` entries, and each of the dims and strides that is not null as many numbers as its rank says.
    #[inline]
    pub(crate) unsafe fn put(&self, pack: &mut VariantPack<'static>, bindings: usize) -> Result<(), Failure> {
        if self.count == 0 {
            return Ok(());
        }
        // SAFETY: by the caller's promise.
        unsafe { self.put_some(pack, bindings) }
    }

    /// # Safety
    /// As of [`put`](Self::put).
    unsafe fn put_some(&self, pack: &mut VariantPack<'static>, bindings: usize) -> Result<(), Failure> {
        let &Self { count, uids, ranks, dims, strides } = self;
        let refuse = |text: String| Err(Failure::argument(format!("hipplan_execute_options_t: {text}")));
        if count > bindings {
            return refuse(format!("override_count is {count}, and {bindings} tensors are bound; each tensor with a shape is bound too"));
        }
        let lists = [
            ("override_uids", uids.is_null()),
            ("override_ranks", ranks.is_null()),
            ("override_dims", dims.is_null()),
            ("override_strides", strides.is_null()),
        ];
        if let Some((name, _)) = lists.iter().find(|(_, is_null)| *is_null) {
            return refuse(format!("override_count is {count}, and {name} is null"));
        }
        for i in 0..count {
            // SAFETY: `i` is below the count, by the caller's promise; nothing is said of the alignment.
            let (uid, rank) = unsafe { (uids.add(i).read_unaligned(), ranks.add(i).read_unaligned()) };
            // SAFETY: as above.
            let (dims, strides) = unsafe { (dims.add(i).read_unaligned(), strides.add(i).read_unaligned()) };
            if rank > MOST_DIMS || dims.is_null() || strides.is_null() || !dims.is_aligned() || !strides.is_aligned() {
                return refuse(format!(
                    "the shape of uid {uid} has {rank} dims at {dims:p} and strides at {strides:p}; expected at most {MOST_DIMS}, and \
                     pointers to so many numbers"
                ));
            }
            let rank = rank as usize;
            // SAFETY: so many numbers are there, by the caller's promise, and the pointers are neither null nor badly aligned. They are
            // copied before the call returns.
            let (dims, strides) = unsafe { (std::slice::from_raw_parts(dims, rank), std::slice::from_raw_parts(strides, rank)) };
            pack.override_shape(uid, dims, strides);
        }
        Ok(())
    }
}
