//! From MIOpen's descriptors to a key: a fixed-size value on the stack, made of what the private library's getters say.
//!
//! | descriptor | key | how |
//! |---|---|---|
//! | handle | device | [`handles::device`] |
//! | tensors: type, dims, strides | the same | getters; 64-bit strides as noted at the setter |
//! | convolution: mode, pads, strides, dilations, groups | the same | getters |
//! | convolution: output padding | the same, in transpose mode | as noted at the setter |
//! | attribute deterministic | - | honoured: plans sum in one order always |
//! | attribute fp16 alternative | - | 1 is declined, for half tensors; else nothing is meant by it |
//! | attributes of fp8 rounding, math type | - | nothing is meant by them: there are no fp8 plans, and float plans compute in float |
//! | vectorised layouts, CHWN, cast types | - | declined, as noted at the setter |
//! | find mode, tuning policy, exhaustive search | - | about a search that does not take place |
//!
//! Descriptors are read anew by every call, since callers change them in place and use their addresses again.

use crate::counters::Decline;
use crate::entry::native;
use crate::{handles, observe};
use bytemuck::{Pod, Zeroable};
use hipplan_miopen_abi::status::{self, Status};
use hipplan_miopen_abi::types::{
    ConvolutionDescriptor, Enum, Handle, TensorDescriptor, convolution_attribute, convolution_mode, data_type,
};
use hipplan_serialize::conv_problem::{MAX_RANK, MAX_SPATIAL};
use hipplan_serialize::{ConvDirection, ConvEpilogue, ConvProblem, DataType, ProblemMode, ProblemTensor};
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};

/// What of MIOpen's is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The convolution alone.
    Plain,
    /// `miopenConvolutionBiasActivationForward`, with what is behind the sums.
    Fused {
        /// A factor on the sums.
        scale: bool,
        /// A tensor is added.
        added: bool,
        /// A factor on the sum of both.
        scale_after: bool,
    },
    /// `miopenConvolutionForwardBias`.
    ForwardBias,
    /// `miopenConvolutionBackwardBias`.
    BackwardBias,
}

impl Kind {
    const FUSED: u8 = 0x10;
    const FORWARD_BIAS: u8 = 0x20;
    const BACKWARD_BIAS: u8 = 0x21;

    const fn to_byte(self) -> u8 {
        match self {
            Self::Plain => 0,
            Self::Fused { scale, added, scale_after } => Self::FUSED | scale as u8 | (added as u8) << 1 | (scale_after as u8) << 2,
            Self::ForwardBias => Self::FORWARD_BIAS,
            Self::BackwardBias => Self::BACKWARD_BIAS,
        }
    }

    const fn from_byte(byte: u8) -> Self {
        match byte {
            Self::FORWARD_BIAS => Self::ForwardBias,
            Self::BACKWARD_BIAS => Self::BackwardBias,
            byte if byte & Self::FUSED != 0 => Self::Fused { scale: byte & 1 != 0, added: byte & 2 != 0, scale_after: byte & 4 != 0 },
            _ => Self::Plain,
        }
    }
}

/// Dims and strides of a tensor, as many as there are spatial dimensions and two; zeros behind.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
pub struct Layout {
    /// Dimensions: batch, channels, space.
    pub dims: [i64; MAX_RANK],
    /// Strides, in elements.
    pub strides: [i64; MAX_RANK],
}

/// A problem on a device: compared and hashed as bytes, of which none is padding.
///
/// `x`, `w` and `y` are those of the forward direction, as in [`ConvProblem`]: in the other directions they stand for `dx`, `dw` and `dy`
/// where those are meant. A bias has its tensor in `y` and nothing else.
#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
pub struct ProblemKey {
    /// HIP's ordinal.
    pub device: i32,
    /// Position in [`ConvDirection::ALL`].
    pub direction: u8,
    /// 1 in transpose mode.
    pub transpose: u8,
    kind: u8,
    /// Spatial dimensions.
    pub spatial: u8,
    /// MIOpen's types of `x`, `w`, `y`.
    pub dtypes: [Enum; 3],
    /// Groups.
    pub groups: i32,
    /// `x`, `w`, `y`.
    pub tensors: [Layout; 3],
    /// Strides of the tensor that a fused call adds.
    pub added_strides: [i64; MAX_RANK],
    /// Padding on either side.
    pub pads: [i64; MAX_SPATIAL],
    /// Step of the filter.
    pub strides: [i64; MAX_SPATIAL],
    /// Distance between filter taps.
    pub dilations: [i64; MAX_SPATIAL],
    /// What transpose mode adds to the size of `y`.
    pub output_pads: [i64; MAX_SPATIAL],
}

impl PartialEq for ProblemKey {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.words() == other.words()
    }
}

impl Eq for ProblemKey {}

/// Words of a key.
const WORDS: usize = size_of::<ProblemKey>() / 8;

impl ProblemKey {
    /// What is asked for.
    pub const fn kind(&self) -> Kind {
        Kind::from_byte(self.kind)
    }

    /// Sets what is asked for.
    pub const fn set_kind(&mut self, kind: Kind) {
        self.kind = kind.to_byte();
    }

    fn words(&self) -> &[u64; WORDS] {
        bytemuck::cast_ref(self)
    }

    /// A hash of the bytes: two words a multiplication, so that it costs a hundred and some instructions.
    #[inline]
    pub fn hash(&self) -> u64 {
        const SEED: u64 = 0x9e37_79b9_7f4a_7c15;
        let mix = |a: u64, b: u64| {
            let product = u128::from(a) * u128::from(b);
            product as u64 ^ (product >> 64) as u64
        };
        let (pairs, rest) = self.words().as_chunks::<2>();
        let mut hash = SEED;
        for [a, b] in pairs {
            hash = mix(hash ^ a, SEED ^ b);
        }
        for word in rest {
            hash = mix(hash ^ word, SEED);
        }
        hash
    }

    /// The problem in the terms that graphs are made from; none of a type that hipDNN does not have.
    pub fn problem(&self) -> Option<ConvProblem> {
        let tensor = |at: usize| {
            let Layout { dims, strides } = self.tensors[at];
            // A bias has its types in `y` alone.
            let dtype = if self.tensors[at] == Layout::zeroed() { DataType::Unset } else { dtype(self.dtypes[at])? };
            Some(ProblemTensor { dtype, dims, strides })
        };
        Some(ConvProblem {
            direction: self.conv_direction(),
            mode: if self.transpose == 0 { ProblemMode::Convolution } else { ProblemMode::Transpose },
            spatial: self.spatial,
            x: tensor(0)?,
            w: tensor(1)?,
            y: tensor(2)?,
            groups: i64::from(self.groups),
            pads: self.pads,
            strides: self.strides,
            dilations: self.dilations,
            output_pads: self.output_pads,
        })
    }

    /// What is computed.
    pub fn conv_direction(&self) -> ConvDirection {
        match self.direction {
            0 => ConvDirection::Forward,
            1 => ConvDirection::BackwardData,
            _ => ConvDirection::BackwardWeights,
        }
    }

    /// The tensor that is written.
    pub const fn result(&self) -> &Layout {
        match self.direction {
            0 => &self.tensors[2],
            1 => &self.tensors[0],
            _ => &self.tensors[1],
        }
    }

    /// MIOpen's type of the tensor that is written.
    pub const fn result_type(&self) -> Enum {
        match self.direction {
            0 => self.dtypes[2],
            1 => self.dtypes[0],
            _ => self.dtypes[1],
        }
    }

    /// What is behind the sums of a fused call.
    pub fn epilogue(&self) -> ConvEpilogue {
        match self.kind() {
            Kind::Fused { scale, added, scale_after } => {
                ConvEpilogue { scale, added: added.then_some(self.added_strides), scale_after, bias: true, relu: true }
            }
            _ => ConvEpilogue::NONE,
        }
    }
}

/// hipDNN's type for one of MIOpen's.
pub const fn dtype(dtype: Enum) -> Option<DataType> {
    Some(match dtype {
        data_type::HALF => DataType::Half,
        data_type::FLOAT => DataType::Float,
        data_type::INT32 => DataType::Int32,
        data_type::INT8 => DataType::Int8,
        data_type::BFLOAT16 => DataType::BFloat16,
        data_type::DOUBLE => DataType::Double,
        data_type::FLOAT8_FNUZ => DataType::Fp8E4M3Fnuz,
        data_type::BFLOAT8_FNUZ => DataType::Fp8E5M2Fnuz,
        data_type::INT64 => DataType::Int64,
        _ => return None,
    })
}

/// The objects of a call, by role.
#[derive(Debug, Clone, Copy)]
pub struct Descriptors {
    /// The handle.
    pub handle: Handle,
    /// `x` or `dx`.
    pub x: TensorDescriptor,
    /// `w` or `dw`.
    pub w: TensorDescriptor,
    /// `y` or `dy`.
    pub y: TensorDescriptor,
    /// The convolution.
    pub conv: ConvolutionDescriptor,
}

/// Why there is no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoKey {
    /// This object is null.
    Null(&'static str),
    /// A getter fails: the status of the call.
    Status(Status),
    /// The problem is none of ours, every time that it comes.
    Declined(Decline),
}

/// Status of a getter.
#[inline]
const fn checked(status: Status) -> Result<(), NoKey> {
    if status == status::SUCCESS { Ok(()) } else { Err(NoKey::Status(status)) }
}

impl Descriptors {
    /// The key of the problem. Its device is [`handles::UNKNOWN`] where the handle's cannot be told.
    ///
    /// # Errors
    /// See [`NoKey`].
    ///
    /// # Safety
    /// The objects are null or alive.
    pub unsafe fn read(&self, direction: ConvDirection) -> Result<ProblemKey, NoKey> {
        let mut key = ProblemKey::zeroed();
        // SAFETY: the caller's promise.
        unsafe { self.read_into(direction, &mut key) }.map(|()| key)
    }

    /// As [`read`](Self::read), into a key of zeros: keys are not copied about on the way of every call.
    ///
    /// # Errors
    /// See [`NoKey`].
    ///
    /// # Safety
    /// The objects are null or alive.
    #[inline]
    pub unsafe fn read_into(&self, direction: ConvDirection, key: &mut ProblemKey) -> Result<(), NoKey> {
        if self.handle.is_null() {
            return Err(NoKey::Null("handle"));
        }
        if self.conv.is_null() {
            return Err(NoKey::Null("convolution descriptor"));
        }
        key.direction = direction as u8;
        let mut spatial = 0;
        checked(native!(miopenGetConvolutionSpatialDim(self.conv, &raw mut spatial)))?;
        if !(1..=MAX_SPATIAL as c_int).contains(&spatial) {
            return Err(if spatial > 0 { NoKey::Declined(Decline::Rank) } else { NoKey::Status(status::BAD_PARM) });
        }
        key.spatial = spatial as u8;
        for (at, tensor) in [self.x, self.w, self.y].into_iter().enumerate() {
            // SAFETY: the caller vouches for the objects.
            let rank = unsafe { read_tensor(tensor, &mut key.dtypes[at], &mut key.tensors[at]) }?;
            if rank != spatial + 2 {
                return Err(NoKey::Declined(Decline::Rank));
            }
        }
        // SAFETY: see above.
        unsafe { self.read_convolution(key) }?;
        key.device = handles::device(self.handle);
        Ok(())
    }

    #[inline]
    unsafe fn read_convolution(&self, key: &mut ProblemKey) -> Result<(), NoKey> {
        let [mut pads, mut strides, mut dilations] = [[0_i32; MAX_SPATIAL]; 3];
        let (mut found, mut mode) = (0, 0);
        let spatial = c_int::from(key.spatial);
        // The lists have room for as many numbers as there are spatial dimensions.
        checked(native!(miopenGetConvolutionNdDescriptor(
            self.conv,
            spatial,
            &raw mut found,
            pads.as_mut_ptr(),
            strides.as_mut_ptr(),
            dilations.as_mut_ptr(),
            &raw mut mode,
        )))?;
        checked(native!(miopenGetConvolutionGroupCount(self.conv, &raw mut key.groups)))?;
        key.transpose = match mode {
            convolution_mode::TRANSPOSE => 1,
            convolution_mode::CONVOLUTION | convolution_mode::GROUP_CONV | convolution_mode::DEPTHWISE => 0,
            _ => return Err(NoKey::Declined(Decline::Mode)),
        };
        key.pads = pads.map(i64::from);
        key.strides = strides.map(i64::from);
        key.dilations = dilations.map(i64::from);
        if key.transpose != 0
            && let Some(note) = observe::conv(self.conv)
        {
            for (place, padding) in key.output_pads.iter_mut().zip(note.output_padding).take(note.spatial) {
                *place = i64::from(padding);
            }
        }
        // SAFETY: the caller vouches for the object.
        if key.dtypes[0] == data_type::HALF && unsafe { asks_for_fp16_alternative(self.conv) } {
            return Err(NoKey::Declined(Decline::Fp16Alternative));
        }
        Ok(())
    }
}

/// Reads a tensor and gives its rank.
///
/// # Errors
/// See [`NoKey`].
///
/// # Safety
/// The descriptor is null or alive.
#[inline]
pub unsafe fn read_tensor(tensor: TensorDescriptor, dtype: &mut Enum, layout: &mut Layout) -> Result<c_int, NoKey> {
    if tensor.is_null() {
        return Err(NoKey::Null("tensor descriptor"));
    }
    let mut rank = 0;
    checked(native!(miopenGetTensorDescriptorSize(tensor, &raw mut rank)))?;
    if rank == 0 {
        // A descriptor that was made and never set: MIOpen follows null pointers then.
        return Err(NoKey::Status(status::BAD_PARM));
    }
    let Some(used) = usize::try_from(rank).ok().filter(|rank| (1..=MAX_RANK).contains(rank)) else {
        return Err(NoKey::Declined(Decline::Rank));
    };
    let [mut dims, mut strides] = [[0_i32; MAX_RANK]; 2];
    // The lists have room for as many numbers as the tensor has dimensions.
    checked(native!(miopenGetTensorDescriptor(tensor, &raw mut *dtype, dims.as_mut_ptr(), strides.as_mut_ptr())))?;
    layout.dims = dims.map(i64::from);
    layout.strides = strides.map(i64::from);
    if let Some(note) = observe::tensor(tensor) {
        apply(&note, *dtype, used, layout)?;
    }
    Ok(rank)
}

/// Checks that a tensor is what a bias of another one is: packed `(1, channels, 1..)` of its type.
///
/// # Errors
/// See [`NoKey`].
///
/// # Safety
/// The descriptor is null or alive.
pub unsafe fn read_bias(bias: TensorDescriptor, of_type: Enum, of: &Layout, spatial: u8) -> Result<(), NoKey> {
    let (mut dtype, mut layout) = (0, Layout::zeroed());
    // SAFETY: the caller's promise.
    let rank = unsafe { read_tensor(bias, &mut dtype, &mut layout) }?;
    let channels = of.dims[1];
    let mut expected = [1; MAX_RANK];
    expected[1] = channels;
    let used = usize::from(spatial) + 2;
    let fits = rank == c_int::from(spatial) + 2
        && dtype == of_type
        && layout.dims[..used] == expected[..used]
        && (channels == 1 || layout.strides[1] == 1);
    if fits { Ok(()) } else { Err(NoKey::Declined(Decline::Operands)) }
}

/// What was noted at a tensor's setters.
#[cold]
fn apply(note: &observe::TensorNote, dtype: Enum, rank: usize, layout: &mut Layout) -> Result<(), NoKey> {
    if note.layout.is_some() {
        return Err(NoKey::Declined(Decline::Layout));
    }
    if note.cast_type.is_some_and(|cast| cast != dtype) {
        return Err(NoKey::Declined(Decline::CastType));
    }
    let Some(wide) = &note.wide else { return Ok(()) };
    if wide.rank != rank {
        return Err(NoKey::Declined(Decline::Rank));
    }
    // What the getter answers is cut from what was noted, or the descriptor was set since in a way that nobody watched.
    let is_cut = |found: &[i64; MAX_RANK], noted: &[u64]| found.iter().zip(noted).take(rank).all(|(&f, &n)| f == i64::from(n as i32));
    if !is_cut(&layout.dims, &wide.dims) || !is_cut(&layout.strides, &wide.strides) {
        return Ok(());
    }
    for (places, numbers) in [(&mut layout.dims, wide.dims), (&mut layout.strides, wide.strides)] {
        for (place, number) in places.iter_mut().zip(numbers).take(rank) {
            *place = i64::try_from(number).map_err(|_| NoKey::Declined(Decline::Layout))?;
        }
    }
    Ok(())
}

/// Whether a convolution of half tensors asks for the alternative implementation.
///
/// # Safety
/// The descriptor is alive.
#[inline]
unsafe fn asks_for_fp16_alternative(conv: ConvolutionDescriptor) -> bool {
    /// A library that does not know the attribute is asked once: it prints an error each time.
    static UNKNOWN: AtomicBool = AtomicBool::new(false);
    if UNKNOWN.load(Ordering::Relaxed) {
        return false;
    }
    let mut value = 0;
    match native!(miopenGetConvolutionAttribute(conv, convolution_attribute::FP16_ALT_IMPL, &raw mut value)) {
        status::SUCCESS => value == 1,
        found => {
            // Any other failure is this descriptor's own.
            if found == status::BAD_PARM {
                UNKNOWN.store(true, Ordering::Relaxed);
            }
            false
        }
    }
}
