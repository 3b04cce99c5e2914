//! Reading operands: packing of row panels and the sorting of strided rows, for AVX-512 and in portable form.

use super::kernel::{Isa, Kernel};

/// A run of rows whose elements lie one step apart in memory; it never crosses a panel.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Segment {
    /// First row within the panel.
    pub(crate) row: u32,
    /// Number of rows, at most [`Kernel::LANES`].
    pub(crate) len: u32,
    /// Element offset of the first row.
    pub(crate) offset: isize,
}

/// Packing of one type.
pub(crate) trait Pack: Kernel {
    /// Packs one panel of `mr` rows: `dst[d * mr + row] = base[offset(row) + depth[d]]`, where a segment's rows lie `step`
    /// (1 or 2) elements apart. Rows outside the segments get any number.
    ///
    /// # Safety
    /// Every element so addressed is readable and initialised; `dst` has room for `depth.len() * mr + LANES` elements;
    /// the machine has the features of `isa`.
    unsafe fn pack(isa: Isa, mr: usize, step: isize, dst: *mut Self, segments: &[Segment], base: *const Self, depth: &[isize]);
}

/// `even[i] = src[2 i]`, `odd[i] = src[2 i + 1]`.
#[inline(always)]
fn halves<T: Copy>(src: &[T], even: &mut [T], odd: &mut [T]) {
    for ((pair, e), o) in src.chunks_exact(2).zip(even).zip(odd) {
        *e = pair[0];
        *o = pair[1];
    }
}

/// [`halves`], compiled for AVX-512.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn halves_avx512<T: Copy>(src: &[T], even: &mut [T], odd: &mut [T]) {
    halves(src, even, odd);
}

/// Sorts elements into those at even and those at odd positions.
pub(crate) fn deinterleave<T: Copy>(isa: Isa, src: &[T], even: &mut [T], odd: &mut [T]) {
    match isa {
        // SAFETY: an `Isa::Avx512` is only made where the machine has AVX-512F.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => unsafe { halves_avx512(src, even, odd) },
        _ => halves(src, even, odd),
    }
}

/// Packing without vector instructions of its own.
///
/// # Safety
/// As [`Pack::pack`].
unsafe fn pack_portable<T: Kernel>(mr: usize, step: isize, dst: *mut T, segments: &[Segment], base: *const T, depth: &[isize]) {
    for (d, &deep) in depth.iter().enumerate() {
        for segment in segments {
            // SAFETY: the caller vouches for the elements read and for the room of `dst`; the two do not overlap.
            unsafe {
                let src = base.offset(segment.offset + deep);
                let dst = dst.add(d * mr + segment.row as usize);
                if step == 1 {
                    std::ptr::copy_nonoverlapping(src, dst, segment.len as usize);
                } else {
                    (0..segment.len as usize).for_each(|i| dst.add(i).write(src.offset(i as isize * step).read()));
                }
            }
        }
    }
}

/// Declares the AVX-512 packing of a type.
#[cfg(target_arch = "x86_64")]
macro_rules! avx512 {
    ($module:ident, $real:ty, $int:ty, $vector:ident, $mask:ident, $masked:ident, $permute:ident, $store:ident) => {
        mod $module {
            use super::Segment;
            use std::arch::x86_64::*;

            /// See [`super::Pack::pack`].
            #[target_feature(enable = "avx512f")]
            pub(super) unsafe fn pack(mr: usize, step: isize, dst: *mut $real, segments: &[Segment], base: *const $real, depth: &[isize]) {
                // The even lanes of a pair of vectors; the others are neither read nor used.
                let lanes = size_of::<$vector>() / size_of::<$real>();
                let even: [$int; size_of::<$vector>() / size_of::<$int>()] = std::array::from_fn(|i| 2 * i as $int);
                // SAFETY: the array is as long as the vector.
                let even = unsafe { _mm512_loadu_si512(even.as_ptr().cast()) };
                for (d, &deep) in depth.iter().enumerate() {
                    for s in segments {
                        // SAFETY: masked lanes are not read; whole vectors are stored in ascending order, so that what
                        // spills behind a segment is overwritten by its successor or lies in the room behind the panel.
                        unsafe {
                            let src = base.offset(s.offset + deep);
                            let row = if step == 1 {
                                $masked(((1u32 << s.len) - 1) as $mask, src)
                            } else {
                                let mask = 0x5555_5555 & ((1u64 << (2 * s.len)) - 1);
                                let high = $masked((mask >> lanes) as $mask, src.wrapping_add(lanes));
                                $permute($masked(mask as $mask, src), even, high)
                            };
                            $store(dst.add(d * mr + s.row as usize), row);
                        }
                    }
                }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
avx512!(avx512_f32, f32, i32, __m512, __mmask16, _mm512_maskz_loadu_ps, _mm512_permutex2var_ps, _mm512_storeu_ps);
#[cfg(target_arch = "x86_64")]
avx512!(avx512_f64, f64, i64, __m512d, __mmask8, _mm512_maskz_loadu_pd, _mm512_permutex2var_pd, _mm512_storeu_pd);

/// Implements [`Pack`] for a type.
macro_rules! pack {
    ($real:ty, $module:ident) => {
        impl Pack for $real {
            unsafe fn pack(isa: Isa, mr: usize, step: isize, dst: *mut Self, segments: &[Segment], base: *const Self, depth: &[isize]) {
                // SAFETY: the caller vouches for memory and machine.
                unsafe {
                    match isa {
                        #[cfg(target_arch = "x86_64")]
                        Isa::Avx512 => $module::pack(mr, step, dst, segments, base, depth),
                        _ => pack_portable(mr, step, dst, segments, base, depth),
                    }
                }
            }
        }
    };
}

pack!(f32, avx512_f32);
pack!(f64, avx512_f64);

#[cfg(test)]
mod tests {
    use super::super::element::Real;
    use super::*;

    fn numbers<T: Real>(count: usize) -> Vec<T> {
        (0..count).map(|i| T::of(((i * 7 + 3) % 13) as f64 - 6.0)).collect()
    }

    fn packing<T: Pack>(isa: Isa) {
        let mr = 2 * T::LANES;
        let src = numbers::<T>(400);
        let depth = [0isize, 5, 2, 40];
        let segments = [
            Segment { row: 0, len: 3, offset: 10 },
            Segment { row: 3, len: T::LANES as u32, offset: 100 },
            Segment { row: 3 + T::LANES as u32, len: 1, offset: 7 },
        ];
        for step in [1, 2] {
            let mut dst = vec![T::ZERO; depth.len() * mr + T::LANES];
            // SAFETY: every offset lies within the 400 elements, and the destination has its room.
            unsafe { T::pack(isa, mr, step, dst.as_mut_ptr(), &segments, src.as_ptr(), &depth) };
            for s in segments {
                for i in 0..s.len as usize {
                    let at = |d: usize| src[(s.offset + depth[d]) as usize + i * step as usize];
                    (0..depth.len()).for_each(|d| assert_eq!(dst[d * mr + s.row as usize + i], at(d)));
                }
            }
        }
    }

    #[test]
    fn deinterleaving_sorts_by_parity() {
        let src = numbers::<f32>(99);
        for &isa in Isa::all() {
            let (mut even, mut odd) = (vec![0.0; 49], vec![0.0; 49]);
            deinterleave(isa, &src[..98], &mut even, &mut odd);
            assert!((0..49).all(|i| even[i] == src[2 * i] && odd[i] == src[2 * i + 1]));
        }
    }

    #[test]
    fn packing_equals_its_definition_on_every_isa() {
        for &isa in Isa::all() {
            packing::<f32>(isa);
            packing::<f64>(isa);
        }
    }
}
