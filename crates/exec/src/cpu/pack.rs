//! The inner kernels of the product: packing of row panels, the panel product and the column product, for AVX-512 and
//! in portable form (where the panel product is nano-gemm's).
//!
//! Why not nano-gemm everywhere: its AVX-512 tile is 32 x 4, which issues one load per 1.3 multiply-adds and reached
//! 0.73 to 0.85 of the `gemm` crate's speed under the same blocking; the 32 x 12 tile here reached 0.80 to 1.06
//! in the same runs (512 to 2048 cubed, one thread, a busy machine).

use super::element::Real;

/// Which kernels run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Isa {
    /// AVX-512F.
    #[cfg(target_arch = "x86_64")]
    Avx512,
    /// Whatever the compiler and nano-gemm make of the target.
    Portable,
}

impl Isa {
    /// The best that this machine has.
    pub(crate) fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx512f") {
            return Self::Avx512;
        }
        Self::Portable
    }
}

/// A run of rows whose elements are neighbours in memory; it never crosses a panel.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Segment {
    /// First row within the panel.
    pub(crate) row: u32,
    /// Number of rows, at most [`Kernel::LANES`].
    pub(crate) len: u32,
    /// Element offset of the first row.
    pub(crate) offset: isize,
}

/// A product of a panel of rows with columns: `c[i + j * ldc] (+)= sum over d of a[d * MR + i] * b[j * ldb + d]`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Panel<T> {
    /// The packed panel.
    pub(crate) a: *const T,
    /// First column of the right operand.
    pub(crate) b: *const T,
    /// Distance of its columns.
    pub(crate) ldb: isize,
    /// The tile.
    pub(crate) c: *mut T,
    /// Distance of its columns.
    pub(crate) ldc: usize,
    /// Rows, at most `MR`; no others of the tile are touched.
    pub(crate) rows: usize,
    /// Columns.
    pub(crate) n: usize,
    /// Depth.
    pub(crate) k: usize,
    /// Overwrite the tile instead of adding to it.
    pub(crate) first: bool,
}

/// The kernels of one type.
pub(crate) trait Kernel: Real {
    /// Rows of a panel.
    const MR: usize;
    /// Most rows of a segment.
    const LANES: usize;
    /// Depth of a block: a panel of it fills most of a 48 KiB first-level cache. For f32, 256 and 384
    /// measured alike; f64 was not measured.
    const KC: usize;

    /// Packs one panel: `dst[d * MR + row] = base[offset(row) + depth[d]]`. Rows outside the segments get any number.
    ///
    /// # Safety
    /// Every element so addressed is readable and initialised; `dst` has room for `depth.len() * MR + LANES` elements;
    /// the machine has the features of `isa`.
    unsafe fn pack(isa: Isa, dst: *mut Self, segments: &[Segment], base: *const Self, depth: &[isize]);

    /// A panel product.
    ///
    /// # Safety
    /// The panel, the columns and the tile are readable, and the tile writable by this thread only;
    /// the machine has the features of `isa`.
    unsafe fn product(isa: Isa, panel: &Panel<Self>);

    /// One column without packing: `c[row] = sum over d of base[offset(row) + depth[d]] * b[d]`, where `c` is the tile's
    /// column at the panel's first row.
    ///
    /// # Safety
    /// As [`Kernel::pack`] for the elements read, `b` has `depth.len()` elements, the column covers the segments' rows.
    unsafe fn column(isa: Isa, c: *mut Self, segments: &[Segment], base: *const Self, depth: &[isize], b: *const Self);
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
        Isa::Portable => halves(src, even, odd),
    }
}

/// Packing without vector instructions of its own.
///
/// # Safety
/// As [`Kernel::pack`].
unsafe fn pack_portable<T: Kernel>(dst: *mut T, segments: &[Segment], base: *const T, depth: &[isize]) {
    for (d, &deep) in depth.iter().enumerate() {
        for segment in segments {
            // SAFETY: the caller vouches for the elements read and for the room of `dst`; the two do not overlap.
            unsafe {
                let src = base.offset(segment.offset + deep);
                std::ptr::copy_nonoverlapping(src, dst.add(d * T::MR + segment.row as usize), segment.len as usize);
            }
        }
    }
}

/// The column product without vector instructions of its own.
///
/// # Safety
/// As [`Kernel::column`].
unsafe fn column_portable<T: Kernel>(c: *mut T, segments: &[Segment], base: *const T, depth: &[isize], b: *const T) {
    for segment in segments {
        let mut sums = [T::ZERO; 16];
        let len = segment.len as usize;
        for (d, &deep) in depth.iter().enumerate() {
            // SAFETY: the caller vouches for the elements read and for `b`.
            let (src, weight) = unsafe { (base.offset(segment.offset + deep), b.add(d).read()) };
            for (i, sum) in sums[..len].iter_mut().enumerate() {
                // SAFETY: as above.
                *sum = *sum + unsafe { src.add(i).read() } * weight;
            }
        }
        // SAFETY: the caller vouches for the room of the column.
        unsafe { std::ptr::copy_nonoverlapping(sums.as_ptr(), c.add(segment.row as usize), len) };
    }
}

/// Declares the AVX-512 kernels of a type.
#[cfg(target_arch = "x86_64")]
macro_rules! avx512 {
    ($module:ident, $real:ty, $lanes:literal, $vector:ident, $mask:ident, $zero:ident, $load:ident, $masked:ident, $store:ident, $masked_store:ident, $set1:ident, $fma:ident, $add:ident) => {
        mod $module {
            use super::{Panel, Segment};
            use std::arch::x86_64::*;

            const LANES: usize = $lanes;
            const MR: usize = 2 * LANES;

            /// One tile of `V` vectors by `N` columns.
            #[inline]
            #[target_feature(enable = "avx512f")]
            unsafe fn tile<const V: usize, const N: usize>(p: &Panel<$real>, column: usize) {
                // SAFETY: the caller of `product` vouches for the panel, the columns and the tile.
                unsafe {
                    let mut acc = [[$zero(); V]; N];
                    let b = p.b.offset(column as isize * p.ldb);
                    let mut a = p.a;
                    for d in 0..p.k {
                        let mut rows = [$zero(); V];
                        for v in 0..V {
                            rows[v] = $load(a.add(v * LANES));
                        }
                        for j in 0..N {
                            let weight = $set1(b.offset(j as isize * p.ldb).add(d).read());
                            for v in 0..V {
                                acc[j][v] = $fma(rows[v], weight, acc[j][v]);
                            }
                        }
                        a = a.add(MR);
                    }
                    // The last vector of a short panel touches only the rows that matter.
                    let mut masks = [$mask::MAX; V];
                    if p.rows < V * LANES {
                        masks[V - 1] = ((1u32 << (p.rows + LANES - V * LANES)) - 1) as $mask;
                    }
                    for j in 0..N {
                        for v in 0..V {
                            let c = p.c.add((column + j) * p.ldc + v * LANES);
                            if masks[v] == $mask::MAX {
                                let sum = if p.first { acc[j][v] } else { $add($load(c), acc[j][v]) };
                                $store(c, sum);
                            } else {
                                let sum = if p.first { acc[j][v] } else { $add($masked(masks[v], c), acc[j][v]) };
                                $masked_store(c, masks[v], sum);
                            }
                        }
                    }
                }
            }

            #[target_feature(enable = "avx512f")]
            unsafe fn columns<const V: usize>(p: &Panel<$real>) {
                let mut j = 0;
                // SAFETY: as for `tile`; the columns add up to `n`.
                unsafe {
                    while j + 12 <= p.n {
                        tile::<V, 12>(p, j);
                        j += 12;
                    }
                    match p.n - j {
                        1 => tile::<V, 1>(p, j),
                        2 => tile::<V, 2>(p, j),
                        3 => tile::<V, 3>(p, j),
                        4 => tile::<V, 4>(p, j),
                        5 => tile::<V, 5>(p, j),
                        6 => tile::<V, 6>(p, j),
                        7 => tile::<V, 7>(p, j),
                        8 => tile::<V, 8>(p, j),
                        9 => tile::<V, 9>(p, j),
                        10 => tile::<V, 10>(p, j),
                        11 => tile::<V, 11>(p, j),
                        _ => {}
                    }
                }
            }

            /// See [`super::Kernel::product`].
            #[target_feature(enable = "avx512f")]
            pub(super) unsafe fn product(p: &Panel<$real>) {
                // SAFETY: as for `tile`.
                unsafe {
                    if p.rows <= LANES {
                        columns::<1>(p);
                    } else {
                        columns::<2>(p);
                    }
                }
            }

            /// See [`super::Kernel::pack`].
            #[target_feature(enable = "avx512f")]
            pub(super) unsafe fn pack(dst: *mut $real, segments: &[Segment], base: *const $real, depth: &[isize]) {
                for (d, &deep) in depth.iter().enumerate() {
                    for s in segments {
                        let mask = ((1u32 << s.len) - 1) as $mask;
                        // SAFETY: masked lanes are not read; whole vectors are stored in ascending order, so that what
                        // spills behind a segment is overwritten by its successor or lies in the room behind the panel.
                        unsafe {
                            let row = $masked(mask, base.offset(s.offset + deep));
                            $store(dst.add(d * MR + s.row as usize), row);
                        }
                    }
                }
            }

            #[inline]
            #[target_feature(enable = "avx512f")]
            unsafe fn group<const S: usize>(c: *mut $real, segments: &[Segment], base: *const $real, depth: &[isize], b: *const $real) {
                let mut sums = [$zero(); S];
                for (d, &deep) in depth.iter().enumerate() {
                    // SAFETY: the caller vouches for the elements read; masked lanes are not read.
                    unsafe {
                        let weight = $set1(b.add(d).read());
                        for s in 0..S {
                            let mask = ((1u32 << segments[s].len) - 1) as $mask;
                            let row = $masked(mask, base.offset(segments[s].offset + deep));
                            sums[s] = $fma(row, weight, sums[s]);
                        }
                    }
                }
                for s in 0..S {
                    let mask = ((1u32 << segments[s].len) - 1) as $mask;
                    // SAFETY: the segment's rows lie within the column; masked lanes are not written.
                    unsafe { $masked_store(c.add(segments[s].row as usize), mask, sums[s]) };
                }
            }

            /// See [`super::Kernel::column`].
            #[target_feature(enable = "avx512f")]
            pub(super) unsafe fn column(c: *mut $real, segments: &[Segment], base: *const $real, depth: &[isize], b: *const $real) {
                let mut rest = segments;
                while !rest.is_empty() {
                    let (now, later) = rest.split_at(rest.len().min(4));
                    // SAFETY: as for this function.
                    unsafe {
                        match now.len() {
                            4 => group::<4>(c, now, base, depth, b),
                            3 => group::<3>(c, now, base, depth, b),
                            2 => group::<2>(c, now, base, depth, b),
                            _ => group::<1>(c, now, base, depth, b),
                        }
                    }
                    rest = later;
                }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
avx512!(
    avx512_f32,
    f32,
    16,
    __m512,
    __mmask16,
    _mm512_setzero_ps,
    _mm512_loadu_ps,
    _mm512_maskz_loadu_ps,
    _mm512_storeu_ps,
    _mm512_mask_storeu_ps,
    _mm512_set1_ps,
    _mm512_fmadd_ps,
    _mm512_add_ps
);
#[cfg(target_arch = "x86_64")]
avx512!(
    avx512_f64,
    f64,
    8,
    __m512d,
    __mmask8,
    _mm512_setzero_pd,
    _mm512_loadu_pd,
    _mm512_maskz_loadu_pd,
    _mm512_storeu_pd,
    _mm512_mask_storeu_pd,
    _mm512_set1_pd,
    _mm512_fmadd_pd,
    _mm512_add_pd
);

/// Implements the kernels of a type.
macro_rules! kernel {
    ($real:ty, $module:ident, $lanes:literal, $kc:literal, $plan:ident) => {
        impl Kernel for $real {
            const MR: usize = 2 * $lanes;
            const LANES: usize = $lanes;
            const KC: usize = $kc;

            unsafe fn pack(isa: Isa, dst: *mut Self, segments: &[Segment], base: *const Self, depth: &[isize]) {
                // SAFETY: the caller vouches for memory and machine.
                unsafe {
                    match isa {
                        #[cfg(target_arch = "x86_64")]
                        Isa::Avx512 => $module::pack(dst, segments, base, depth),
                        Isa::Portable => pack_portable(dst, segments, base, depth),
                    }
                }
            }

            unsafe fn product(isa: Isa, p: &Panel<Self>) {
                // SAFETY: the caller vouches for memory and machine; nano-gemm's plan is made for these very extents,
                // a column-major panel and a column-major tile.
                unsafe {
                    match isa {
                        #[cfg(target_arch = "x86_64")]
                        Isa::Avx512 => $module::product(p),
                        Isa::Portable => {
                            let (m, lda, ldc) = (p.rows, Self::MR as isize, p.ldc as isize);
                            let (alpha, beta) = (if p.first { 0.0 } else { 1.0 }, 1.0);
                            nano_gemm::Plan::$plan(m, p.n, p.k)
                                .execute_unchecked(m, p.n, p.k, p.c, 1, ldc, p.a, 1, lda, p.b, 1, p.ldb, alpha, beta, false, false);
                        }
                    }
                }
            }

            unsafe fn column(isa: Isa, c: *mut Self, segments: &[Segment], base: *const Self, depth: &[isize], b: *const Self) {
                // SAFETY: the caller vouches for memory and machine.
                unsafe {
                    match isa {
                        #[cfg(target_arch = "x86_64")]
                        Isa::Avx512 => $module::column(c, segments, base, depth, b),
                        Isa::Portable => column_portable(c, segments, base, depth, b),
                    }
                }
            }
        }
    };
}

kernel!(f32, avx512_f32, 16, 256, new_colmajor_lhs_and_dst_f32);
kernel!(f64, avx512_f64, 8, 256, new_colmajor_lhs_and_dst_f64);

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers<T: Real>(count: usize) -> Vec<T> {
        (0..count).map(|i| T::of(((i * 7 + 3) % 13) as f64 - 6.0)).collect()
    }

    fn panels<T: Kernel>(isa: Isa) {
        for n in 1..=26 {
            for (rows, k) in [(1, 1), (T::LANES, 3), (T::MR, 20), (T::LANES + 1, 17)] {
                let (a, b, ldb) = (numbers::<T>(k * T::MR), numbers::<T>(n * (k + 2)), k + 2);
                let mut c = numbers::<T>(n * T::MR);
                for first in [true, false] {
                    let before = c.clone();
                    let panel = Panel { a: a.as_ptr(), b: b.as_ptr(), ldb: ldb as isize, c: c.as_mut_ptr(), ldc: T::MR, rows, n, k, first };
                    // SAFETY: the three vectors have the extents that the panel names.
                    unsafe { T::product(isa, &panel) };
                    for j in 0..n {
                        for i in 0..rows {
                            let mut want = if first { 0.0 } else { before[j * T::MR + i].f64() };
                            for d in 0..k {
                                want += a[d * T::MR + i].f64() * b[j * ldb + d].f64();
                            }
                            assert_eq!(c[j * T::MR + i].f64(), want);
                        }
                    }
                }
            }
        }
    }

    fn packing<T: Kernel>(isa: Isa) {
        let src = numbers::<T>(400);
        let depth = [0isize, 5, 2, 40];
        let segments = [
            Segment { row: 0, len: 3, offset: 10 },
            Segment { row: 3, len: T::LANES as u32, offset: 100 },
            Segment { row: 3 + T::LANES as u32, len: 1, offset: 7 },
        ];
        let mut dst = vec![T::ZERO; depth.len() * T::MR + T::LANES];
        let weights = numbers::<T>(depth.len());
        let mut column = vec![T::ZERO; T::MR + T::LANES];
        // SAFETY: every offset lies within the 400 elements, and both destinations have their room.
        unsafe {
            T::pack(isa, dst.as_mut_ptr(), &segments, src.as_ptr(), &depth);
            T::column(isa, column.as_mut_ptr(), &segments, src.as_ptr(), &depth, weights.as_ptr());
        }
        for s in segments {
            for i in 0..s.len as usize {
                let at = |d: usize| src[(s.offset + depth[d]) as usize + i];
                let row = s.row as usize + i;
                let want: f64 = (0..depth.len()).map(|d| at(d).f64() * weights[d].f64()).sum();
                assert_eq!(column[row].f64(), want);
                (0..depth.len()).for_each(|d| assert_eq!(dst[d * T::MR + row], at(d)));
            }
        }
    }

    #[test]
    fn deinterleaving_sorts_by_parity() {
        let src = numbers::<f32>(99);
        for isa in [Isa::detect(), Isa::Portable] {
            let (mut even, mut odd) = (vec![0.0; 49], vec![0.0; 49]);
            deinterleave(isa, &src[..98], &mut even, &mut odd);
            assert!((0..49).all(|i| even[i] == src[2 * i] && odd[i] == src[2 * i + 1]));
        }
    }

    #[test]
    fn kernels_equal_their_definition_on_every_isa() {
        for isa in [Isa::detect(), Isa::Portable] {
            panels::<f32>(isa);
            panels::<f64>(isa);
            packing::<f32>(isa);
            packing::<f64>(isa);
        }
    }
}
