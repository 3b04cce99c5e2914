//! The `gemm` crate's microkernels, called directly.
//!
//! Why not the crate's entry point: it packs both operands into memory that it allocates on each call, and cannot gather
//! its left operand through a table. Its microkernels allocate nothing and take a packed panel as it is, so the blocking
//! and the packing here are ours and the arithmetic is the crate's. That layer is public but undocumented; what is relied
//! on was read in versions 0.19.0, which `Cargo.toml` pins:
//!
//! * `UKR[v - 1][n - 1]` computes `m` rows and `n` columns, where `v` is `m` in vectors, rounded up.
//! * It reads `v * lanes` rows of the left operand for each depth, whatever `m` is: those of a panel are initialised.
//! * It reads exactly `n` columns by `k` of the right operand. No operand needs any alignment.
//! * It writes exactly `m` by `n` elements of the result, and reads them only if told to add.
//! * Every element is one chain of multiply-adds in the order of the depth, added to the result at the end by one
//!   operation: the same bits in a whole tile and in a partial one, for any `m` and `n`.

use super::element::Real;
use gemm_common::microkernel::MicroKernelFn;

/// Which kernels run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Isa {
    /// AVX-512F.
    #[cfg(target_arch = "x86_64")]
    Avx512,
    /// AVX2 with fused multiply-add.
    #[cfg(target_arch = "x86_64")]
    Fma,
    /// Neon.
    #[cfg(target_arch = "aarch64")]
    Neon,
    /// Nothing in particular.
    Portable,
}

impl Isa {
    /// The best that this machine has.
    pub(crate) fn detect() -> Self {
        Self::all()[0]
    }

    /// All that this machine has, the best first.
    pub(crate) fn all() -> &'static [Self] {
        #[cfg(target_arch = "x86_64")]
        {
            if std::arch::is_x86_feature_detected!("avx512f") {
                return &[Self::Avx512, Self::Fma, Self::Portable];
            }
            if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
                return &[Self::Fma, Self::Portable];
            }
        }
        #[cfg(target_arch = "aarch64")]
        if std::arch::is_aarch64_feature_detected!("neon") {
            return &[Self::Neon, Self::Portable];
        }
        &[Self::Portable]
    }
}

/// The microkernels of one type and one instruction set.
#[derive(Debug)]
pub(crate) struct Microkernels<T: 'static> {
    /// Elements of a vector.
    lanes: usize,
    /// Most columns at once.
    columns: usize,
    /// By vectors, then by columns.
    table: &'static [MicroKernelFn<T>],
}

/// A product of a panel of rows with columns: `c[i + j * ldc] (+)= sum over d of a[d * mr + i] * b[j * ldb + d]`.
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
    /// Rows, 1 to [`Microkernels::mr`]; no others of the tile are touched.
    pub(crate) rows: usize,
    /// Columns, 1 to [`Microkernels::nr`].
    pub(crate) columns: usize,
    /// Depth.
    pub(crate) k: usize,
    /// Overwrite the tile instead of adding to it.
    pub(crate) first: bool,
}

impl<T: Real> Microkernels<T> {
    /// Rows of a panel.
    pub(crate) fn mr(&self) -> usize {
        self.lanes * (self.table.len() / self.columns)
    }

    /// Columns of a tile in registers.
    pub(crate) fn nr(&self) -> usize {
        self.columns
    }

    /// A panel product.
    ///
    /// # Safety
    /// `a` is readable and initialised for `k` times [`Microkernels::mr`] elements, `b` for the columns and the depth, and
    /// so is the tile unless this is its `first` product; the tile's elements are written by this thread only; the
    /// machine has the features of the instruction set that these were asked for.
    #[inline]
    pub(crate) unsafe fn product(&self, p: &Panel<T>) {
        let kernel = self.table[(p.rows.div_ceil(self.lanes) - 1) * self.columns + p.columns - 1];
        let (ldc, mr, one) = (p.ldc as isize, self.mr() as isize, T::ONE);
        let add = u8::from(!p.first);
        // SAFETY: the kernel is the one for these rows and columns: by the module's list it reads `k` times at most `mr`
        // elements at `a` (depth at distance `mr`), the columns and depth at `b` (depth at distance 1, columns at `ldb`),
        // and writes the rows and columns at `c` (rows at distance 1, columns at `ldc`), reading them only when `add` is
        // 1. All that is what the caller vouches for, as are the features that the kernel was compiled for. The result's
        // and the product's factors are one; the last pointer is a hint that the kernels compute with but never follow.
        unsafe {
            kernel(p.rows, p.columns, p.k, p.c, p.a, p.b, ldc, 1, mr, 1, p.ldb, one, one, add, false, false, false, std::ptr::null());
        }
    }
}

/// A type that products are summed in.
pub(crate) trait Kernel: Real {
    /// Most rows of a [`super::pack::Segment`].
    const LANES: usize;
    /// Depth of a block. For f32, 512 beat 192 and 256 by up to 0.1 of the gemm crate's speed; f64 was not measured.
    const KC: usize;

    /// The microkernels for an instruction set.
    fn microkernels(isa: Isa) -> &'static Microkernels<Self>;
}

/// Implements [`Kernel`] with the microkernels of one crate. The crate keeps the number of lanes to itself, so it is given
/// here; the tests hold every row and column of every tile against it.
macro_rules! kernel {
    ($real:ident, $gemm:ident, $size:literal) => {
        impl Kernel for $real {
            const LANES: usize = 64 / $size;
            const KC: usize = 512;

            fn microkernels(isa: Isa) -> &'static Microkernels<Self> {
                /// Names the module's table and its extents.
                macro_rules! of {
                    ($module:ident, $bytes:expr) => {{
                        use $gemm::microkernel::$module::$real::{NR, UKR};
                        static TABLE: [[MicroKernelFn<$real>; NR]; UKR.len()] = UKR;
                        static KERNELS: Microkernels<$real> =
                            Microkernels { lanes: $bytes / $size, columns: NR, table: TABLE.as_flattened() };
                        &KERNELS
                    }};
                }
                match isa {
                    #[cfg(target_arch = "x86_64")]
                    Isa::Avx512 => of!(avx512f, 64),
                    #[cfg(target_arch = "x86_64")]
                    Isa::Fma => of!(fma, 32),
                    #[cfg(target_arch = "aarch64")]
                    Isa::Neon => of!(neon, 16),
                    Isa::Portable => of!(scalar, $size),
                }
            }
        }
    };
}

kernel!(f32, gemm_f32, 4);
kernel!(f64, gemm_f64, 8);

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers<T: Real>(count: usize) -> Vec<T> {
        (0..count).map(|i| T::of(((i * 7 + 3) % 13) as f64 - 6.0)).collect()
    }

    /// All rows and columns of a kernel's tile, in vectors of exact size: the operands and the tile are all it may touch.
    fn tiles<T: Kernel>(isa: Isa) {
        let kernels = T::microkernels(isa);
        let (mr, nr) = (kernels.mr(), kernels.nr());
        for rows in 1..=mr {
            for columns in 1..=nr {
                for k in [1, 2, 7, 12] {
                    let (ldb, ldc) = (k + 2, mr + 1);
                    let (a, b) = (numbers::<T>(k * mr), numbers::<T>((columns - 1) * ldb + k));
                    let mut c = numbers::<T>(columns * ldc);
                    for first in [true, false] {
                        let before = c.clone();
                        let (a, b, ldb) = (a.as_ptr(), b.as_ptr(), ldb as isize);
                        // SAFETY: the three vectors have the extents that the panel names; `all` told of `isa`.
                        unsafe { kernels.product(&Panel { a, b, ldb, c: c.as_mut_ptr(), ldc, rows, columns, k, first }) };
                        for (at, (&was, &is)) in before.iter().zip(&c).enumerate() {
                            let (i, j) = (at % ldc, at / ldc);
                            let product = |d: usize| {
                                // SAFETY: row `i` and column `j` are in range where this is called.
                                unsafe { a.add(d * mr + i).read().f64() * b.add(j * ldb as usize + d).read().f64() }
                            };
                            let old = if first { 0.0 } else { was.f64() };
                            let want = if i < rows { old + (0..k).map(product).sum::<f64>() } else { was.f64() };
                            assert_eq!(is.f64(), want, "{isa:?} {rows}x{columns}x{k} at {i}, {j}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn every_tile_of_every_isa_is_its_definition() {
        for &isa in Isa::all() {
            tiles::<f32>(isa);
            tiles::<f64>(isa);
        }
    }

    /// What the module says of bits: a whole tile's element equals the same element computed alone.
    #[test]
    fn the_shape_of_a_tile_changes_no_bit() {
        for &isa in Isa::all() {
            let kernels = f32::microkernels(isa);
            let (mr, nr, k) = (kernels.mr(), kernels.nr(), 101);
            let real = |i: usize| ((i * 37 % 101) as f32 - 50.0) / 7.0;
            let a: Vec<f32> = (0..k * mr).map(real).collect();
            let b: Vec<f32> = (0..k * nr).map(real).collect();
            let run = |row: usize, rows: usize, column: usize, columns: usize, c: &mut Vec<f32>| {
                // The rows from `row` on as a panel of their own.
                let part: Vec<f32> = (0..k * mr).map(|i| a[i / mr * mr + (row + i % mr) % mr]).collect();
                let (ldb, ldc) = (k as isize, mr);
                for first in [true, false] {
                    let (b, c) = (b[column * k..].as_ptr(), c[column * mr + row..].as_mut_ptr());
                    // SAFETY: panel, columns and tile lie within the vectors.
                    unsafe { kernels.product(&Panel { a: part.as_ptr(), b, ldb, c, ldc, rows, columns, k, first }) };
                }
            };
            let (mut whole, mut pieces) = (vec![0.0; mr * nr], vec![0.0; mr * nr]);
            run(0, mr, 0, nr, &mut whole);
            for column in 0..nr {
                run(0, mr - 1, column, 1, &mut pieces);
                run(mr - 1, 1, column, 1, &mut pieces);
            }
            assert!(whole.iter().zip(&pieces).all(|(w, p)| w.to_bits() == p.to_bits()), "{isa:?}");
        }
    }
}
