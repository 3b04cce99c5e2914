use flatbuffers::{InvalidFlatbuffer, SIZE_UOFFSET, Verifiable, Verifier};
use std::marker::PhantomData;

/// A vector of numbers as the verifier has to see it.
///
/// C++ writers do not align the place behind the length of an *empty* vector for elements that it does not have. The verifier
/// of the flatbuffers crate wants that place aligned and would refuse such a buffer, so the generated code verifies vectors of
/// 8-byte numbers through this type (`schemas/generate.sh` puts it there).
#[derive(Debug)]
pub struct Elements<T>(PhantomData<T>);

impl<T> Verifiable for Elements<T> {
    fn run_verifier(v: &mut Verifier<'_, '_>, pos: usize) -> Result<(), InvalidFlatbuffer> {
        // On every target that has flatbuffers' offsets, a usize holds one.
        let len = usize::try_from(v.get_uoffset(pos)?).unwrap_or(usize::MAX);
        if len == 0 {
            return Ok(());
        }
        let start = pos.saturating_add(SIZE_UOFFSET);
        v.is_aligned::<T>(start)?;
        v.range_in_buffer(start, len.saturating_mul(size_of::<T>()))
    }
}
