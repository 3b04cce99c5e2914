//! Element types and typed rows: loading, storing and rounding runs of elements at a stride.

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use hipplan_serialize::DataType;

/// An element type that the kernels know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Elem {
    F32,
    F16,
    Bf16,
    F64,
    I32,
    I8,
    U8,
    Bool,
}

/// What becomes of a number outside an integer type's range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IntMode {
    /// The nearest representable number.
    Saturate,
    /// Two's complement wrap, for sums of integer products.
    Wrap,
}

impl Elem {
    /// The kernels' type for a wire type, if they know it.
    pub(crate) const fn of(dtype: DataType) -> Option<Self> {
        Some(match dtype {
            DataType::Float => Self::F32,
            DataType::Half => Self::F16,
            DataType::BFloat16 => Self::Bf16,
            DataType::Double => Self::F64,
            DataType::Int32 => Self::I32,
            DataType::Int8 => Self::I8,
            DataType::UInt8 => Self::U8,
            DataType::Boolean => Self::Bool,
            _ => return None,
        })
    }

    /// Bytes of one element.
    pub(crate) const fn size(self) -> usize {
        match self {
            Self::F32 | Self::I32 => 4,
            Self::F16 | Self::Bf16 => 2,
            Self::F64 => 8,
            Self::I8 | Self::U8 | Self::Bool => 1,
        }
    }

    /// Whether `f32` cannot hold every value.
    pub(crate) const fn wide(self) -> bool {
        matches!(self, Self::F64 | Self::I32)
    }

    /// Whether it is a floating-point type.
    pub(crate) const fn float(self) -> bool {
        matches!(self, Self::F32 | Self::F16 | Self::Bf16 | Self::F64)
    }

    /// What becomes of a sum of integer products that is out of range: int32 wraps, as its adders do; a byte is the nearest.
    pub(crate) const fn sum_mode(self) -> IntMode {
        if matches!(self, Self::I32) { IntMode::Wrap } else { IntMode::Saturate }
    }

    /// Whether it is an 8-bit integer, whose products a `f64` sums exactly.
    pub(crate) const fn byte(self) -> bool {
        matches!(self, Self::I8 | Self::U8)
    }
}

fn to_i32(value: f64, mode: IntMode) -> i32 {
    let rounded = value.round_ties_even();
    match mode {
        IntMode::Saturate => rounded as i32,
        // The sum is an exact integer below 2^53: the cast to i64 is exact and the cut to 32 bits is the wrap.
        IntMode::Wrap => rounded as i64 as i32,
    }
}

fn to_i8(value: f64, mode: IntMode) -> i8 {
    let rounded = value.round_ties_even();
    match mode {
        IntMode::Saturate => rounded as i8,
        IntMode::Wrap => rounded as i64 as i8,
    }
}

fn to_u8(value: f64, mode: IntMode) -> u8 {
    let rounded = value.round_ties_even();
    match mode {
        IntMode::Saturate => rounded as u8,
        IntMode::Wrap => rounded as i64 as u8,
    }
}

/// Reads `$dst.len()` elements of `$ty` at `$stride`; `$cast` turns one into the row's type.
macro_rules! load {
    ($ty:ty, $src:expr, $stride:expr, $dst:expr, $cast:expr) => {{
        let src = $src.cast::<$ty>();
        let cast = $cast;
        match $stride {
            0 => $dst.fill(cast(src.read())),
            1 => {
                for (i, d) in $dst.iter_mut().enumerate() {
                    *d = cast(src.add(i).read());
                }
            }
            stride => {
                for (i, d) in $dst.iter_mut().enumerate() {
                    *d = cast(src.offset(i as isize * stride).read());
                }
            }
        }
    }};
}

/// Writes the row `$src` as elements of `$ty` at `$stride`.
macro_rules! store {
    ($ty:ty, $dst:expr, $stride:expr, $src:expr, $cast:expr) => {{
        let dst = $dst.cast::<$ty>();
        let cast = $cast;
        if $stride == 1 {
            for (i, &v) in $src.iter().enumerate() {
                dst.add(i).write(cast(v));
            }
        } else {
            for (i, &v) in $src.iter().enumerate() {
                dst.offset(i as isize * $stride).write(cast(v));
            }
        }
    }};
}

/// A type that rows are computed in: `f32` or `f64`.
pub(crate) trait Real: Copy + Send + Sync + PartialOrd + std::fmt::Debug + num::Arith + 'static {
    /// Reads a row: element `i` of `dst` is the element at `src + i * stride` elements.
    ///
    /// # Safety
    /// Every element so addressed is readable, initialised, aligned to its size and not written meanwhile.
    unsafe fn load_row(elem: Elem, src: *const u8, stride: isize, dst: &mut [Self]);

    /// The element type of this type itself.
    const ELEM: Elem;

    /// Writes a row, rounding to nearest even; numbers outside an integer's range as `ints` says.
    ///
    /// # Safety
    /// Every element so addressed is writable, aligned to its size and not accessed meanwhile.
    unsafe fn store_row(elem: Elem, dst: *mut u8, stride: isize, src: &[Self], ints: IntMode);

    /// What a row becomes by storing and loading it.
    fn round_row(elem: Elem, row: &mut [Self], ints: IntMode);

    /// Reads elements at the offsets of a table.
    ///
    /// # Safety
    /// As [`Real::load_row`], for `src + table[i]` elements.
    unsafe fn load_table(elem: Elem, src: *const u8, table: &[isize], dst: &mut [Self]) {
        let size = elem.size() as isize;
        let mut i = 0;
        while i < table.len() {
            // Runs of one stride go through the row loader.
            let mut end = i + 1;
            let mut stride = 1;
            if end < table.len() {
                stride = table[end] - table[i];
                while end < table.len() && table[end] - table[end - 1] == stride {
                    end += 1;
                }
            }
            // SAFETY: the caller vouches for every offset of the table, and a run's offsets are those of its stride.
            unsafe { Self::load_row(elem, src.offset(table[i] * size), stride, &mut dst[i..end]) };
            i = end;
        }
    }
}

impl Real for f32 {
    const ELEM: Elem = Elem::F32;

    unsafe fn load_row(elem: Elem, src: *const u8, stride: isize, dst: &mut [Self]) {
        // SAFETY: the caller vouches for every element read; the half-float slices cover exactly the elements of a
        // contiguous row, which are initialised, aligned and not written meanwhile.
        unsafe {
            match elem {
                Elem::F32 => load!(f32, src, stride, dst, |v| v),
                Elem::F16 if stride == 1 => {
                    std::slice::from_raw_parts(src.cast::<f16>(), dst.len()).convert_to_f32_slice(dst);
                }
                Elem::F16 => load!(f16, src, stride, dst, f16::to_f32),
                Elem::Bf16 => load!(u16, src, stride, dst, |v: u16| f32::from_bits(u32::from(v) << 16)),
                Elem::F64 => load!(f64, src, stride, dst, |v: f64| v as f32),
                Elem::I32 => load!(i32, src, stride, dst, |v: i32| v as f32),
                Elem::I8 => load!(i8, src, stride, dst, f32::from),
                Elem::U8 => load!(u8, src, stride, dst, f32::from),
                Elem::Bool => load!(u8, src, stride, dst, |v: u8| if v != 0 { 1.0 } else { 0.0 }),
            }
        }
    }

    unsafe fn store_row(elem: Elem, dst: *mut u8, stride: isize, src: &[Self], ints: IntMode) {
        // SAFETY: the caller vouches for every element written; the half-float slice covers exactly the elements of a
        // contiguous row. Its memory may be uninitialised, but it is only written, and u16 has no invalid values.
        unsafe {
            match elem {
                Elem::F32 => store!(f32, dst, stride, src, |v| v),
                Elem::F16 if stride == 1 => {
                    std::slice::from_raw_parts_mut(dst.cast::<f16>(), src.len()).convert_from_f32_slice(src);
                }
                Elem::F16 => store!(f16, dst, stride, src, f16::from_f32),
                Elem::Bf16 => store!(bf16, dst, stride, src, bf16::from_f32),
                Elem::F64 => store!(f64, dst, stride, src, f64::from),
                Elem::I32 => store!(i32, dst, stride, src, |v| to_i32(f64::from(v), ints)),
                Elem::I8 => store!(i8, dst, stride, src, |v| to_i8(f64::from(v), ints)),
                Elem::U8 => store!(u8, dst, stride, src, |v| to_u8(f64::from(v), ints)),
                Elem::Bool => store!(u8, dst, stride, src, |v: f32| u8::from(v != 0.0)),
            }
        }
    }

    fn round_row(elem: Elem, row: &mut [Self], ints: IntMode) {
        match elem {
            Elem::F32 | Elem::F64 => {}
            Elem::F16 => row.iter_mut().for_each(|v| *v = f16::from_f32(*v).to_f32()),
            Elem::Bf16 => row.iter_mut().for_each(|v| *v = bf16::from_f32(*v).to_f32()),
            Elem::I32 => row.iter_mut().for_each(|v| *v = to_i32(f64::from(*v), ints) as f32),
            Elem::I8 => row.iter_mut().for_each(|v| *v = f32::from(to_i8(f64::from(*v), ints))),
            Elem::U8 => row.iter_mut().for_each(|v| *v = f32::from(to_u8(f64::from(*v), ints))),
            Elem::Bool => row.iter_mut().for_each(|v| *v = if *v != 0.0 { 1.0 } else { 0.0 }),
        }
    }
}

impl Real for f64 {
    const ELEM: Elem = Elem::F64;

    unsafe fn load_row(elem: Elem, src: *const u8, stride: isize, dst: &mut [Self]) {
        // SAFETY: the caller vouches for every element read.
        unsafe {
            match elem {
                Elem::F32 => load!(f32, src, stride, dst, f64::from),
                Elem::F16 => load!(f16, src, stride, dst, f16::to_f64),
                Elem::Bf16 => load!(bf16, src, stride, dst, bf16::to_f64),
                Elem::F64 => load!(f64, src, stride, dst, |v| v),
                Elem::I32 => load!(i32, src, stride, dst, f64::from),
                Elem::I8 => load!(i8, src, stride, dst, f64::from),
                Elem::U8 => load!(u8, src, stride, dst, f64::from),
                Elem::Bool => load!(u8, src, stride, dst, |v: u8| if v != 0 { 1.0 } else { 0.0 }),
            }
        }
    }

    unsafe fn store_row(elem: Elem, dst: *mut u8, stride: isize, src: &[Self], ints: IntMode) {
        // SAFETY: the caller vouches for every element written.
        unsafe {
            match elem {
                Elem::F32 => store!(f32, dst, stride, src, |v: f64| v as f32),
                Elem::F16 => store!(f16, dst, stride, src, f16::from_f64),
                Elem::Bf16 => store!(bf16, dst, stride, src, bf16::from_f64),
                Elem::F64 => store!(f64, dst, stride, src, |v| v),
                Elem::I32 => store!(i32, dst, stride, src, |v| to_i32(v, ints)),
                Elem::I8 => store!(i8, dst, stride, src, |v| to_i8(v, ints)),
                Elem::U8 => store!(u8, dst, stride, src, |v| to_u8(v, ints)),
                Elem::Bool => store!(u8, dst, stride, src, |v: f64| u8::from(v != 0.0)),
            }
        }
    }

    fn round_row(elem: Elem, row: &mut [Self], ints: IntMode) {
        match elem {
            Elem::F64 => {}
            Elem::F32 => row.iter_mut().for_each(|v| *v = f64::from(*v as f32)),
            Elem::F16 => row.iter_mut().for_each(|v| *v = f16::from_f64(*v).to_f64()),
            Elem::Bf16 => row.iter_mut().for_each(|v| *v = bf16::from_f64(*v).to_f64()),
            Elem::I32 => row.iter_mut().for_each(|v| *v = f64::from(to_i32(*v, ints))),
            Elem::I8 => row.iter_mut().for_each(|v| *v = f64::from(to_i8(*v, ints))),
            Elem::U8 => row.iter_mut().for_each(|v| *v = f64::from(to_u8(*v, ints))),
            Elem::Bool => row.iter_mut().for_each(|v| *v = if *v != 0.0 { 1.0 } else { 0.0 }),
        }
    }
}

/// The arithmetic that the kernels need of both types.
pub(crate) mod num {
    use std::ops::{Add, Div, Mul, Neg, Sub};

    macro_rules! arith {
        ($($(#[$meta:meta])* fn $name:ident;)*) => {
            /// Arithmetic and elementary functions of a real type.
            pub(crate) trait Arith:
                Sized + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + Div<Output = Self> + Neg<Output = Self>
            {
                const ZERO: Self;
                const ONE: Self;
                const INFINITY: Self;
                /// The nearest number of this type.
                fn of(value: f64) -> Self;
                /// The same number.
                fn f64(self) -> f64;
                /// The error function, to within an ulp or so.
                fn erf(self) -> Self;
                $($(#[$meta])* fn $name(self) -> Self;)*
            }
            impl Arith for f32 {
                const ZERO: Self = 0.0;
                const ONE: Self = 1.0;
                const INFINITY: Self = f32::INFINITY;
                fn of(value: f64) -> Self { value as f32 }
                fn f64(self) -> f64 { f64::from(self) }
                fn erf(self) -> Self { libm::erf(f64::from(self)) as f32 }
                $(#[inline] fn $name(self) -> Self { f32::$name(self) })*
            }
            impl Arith for f64 {
                const ZERO: Self = 0.0;
                const ONE: Self = 1.0;
                const INFINITY: Self = f64::INFINITY;
                fn of(value: f64) -> Self { value }
                fn f64(self) -> f64 { self }
                fn erf(self) -> Self { libm::erf(self) }
                $(#[inline] fn $name(self) -> Self { f64::$name(self) })*
            }
        };
    }

    arith! {
        fn abs;
        fn ceil;
        fn exp;
        fn exp_m1;
        fn floor;
        fn ln;
        fn ln_1p;
        fn sin;
        fn sqrt;
        fn tan;
        fn tanh;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Elem; 8] = [Elem::F32, Elem::F16, Elem::Bf16, Elem::F64, Elem::I32, Elem::I8, Elem::U8, Elem::Bool];

    fn through<T: Real>(elem: Elem, stride: isize, row: &[T], ints: IntMode) -> Vec<T> {
        let mut memory = vec![0u64; row.len() * 3 + 1];
        let mut back = vec![T::ZERO; row.len()];
        // SAFETY: the memory holds 3 * 8 bytes for each element, and the stride is at most 3 elements of 8 bytes.
        unsafe {
            T::store_row(elem, memory.as_mut_ptr().cast(), stride, row, ints);
            T::load_row(elem, memory.as_ptr().cast(), stride, &mut back);
        }
        back
    }

    #[test]
    fn storing_and_loading_is_rounding() {
        let row: Vec<f64> = [0.0, 0.5, 1.5, -0.5, -2.5, 1.0 / 3.0, 127.5, 128.5, -300.0, 255.5, 70000.0, 1e-8, 3e9, -3e9, 1e39].to_vec();
        let narrow: Vec<f32> = row.iter().map(|&v| v as f32).collect();
        for elem in ALL {
            for stride in [1, 2, 3] {
                for ints in [IntMode::Saturate, IntMode::Wrap] {
                    let mut want = row.clone();
                    f64::round_row(elem, &mut want, ints);
                    assert_eq!(through(elem, stride, &row, ints), want, "{elem:?}");
                    let mut want = narrow.clone();
                    f32::round_row(elem, &mut want, ints);
                    assert_eq!(through(elem, stride, &narrow, ints), want, "{elem:?}");
                }
            }
        }
    }

    #[test]
    fn integers_round_to_even_saturate_and_wrap() {
        let row = [0.5, 1.5, 300.0, -300.0, f64::NAN];
        assert_eq!(through(Elem::I8, 1, &row, IntMode::Saturate), [0.0, 2.0, 127.0, -128.0, 0.0]);
        assert_eq!(through(Elem::I32, 1, &[4294967297.0, 2147483648.0], IntMode::Wrap), [1.0, -2147483648.0]);
        assert_eq!(through(Elem::Bool, 2, &row, IntMode::Saturate), [1.0; 5]);
    }

    #[test]
    fn a_zero_stride_repeats_and_a_table_gathers() {
        let memory: Vec<f32> = (0..10).map(|v| v as f32).collect();
        let mut row = [0f32; 4];
        // SAFETY: the offsets lie within the ten elements.
        unsafe { f32::load_row(Elem::F32, memory[3..].as_ptr().cast(), 0, &mut row) };
        assert_eq!(row, [3.0; 4]);
        // SAFETY: the offsets lie within the ten elements.
        unsafe { f32::load_table(Elem::F32, memory.as_ptr().cast(), &[7, 8, 2, 0], &mut row) };
        assert_eq!(row, [7.0, 8.0, 2.0, 0.0]);
    }
}
