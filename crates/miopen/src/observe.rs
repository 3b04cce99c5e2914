//! What no getter tells about a descriptor, noted when its setter is called.
//!
//! Programs rarely say any of it. While nothing is noted of any tensor, or convolution, in the whole process, asking is one relaxed load.

use crate::lock::ForkLock;
use hipplan_miopen_abi::types::{ConvolutionDescriptor, Enum, TensorDescriptor};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Most dimensions that are noted.
pub const MAX_RANK: usize = 8;

/// Dimensions and strides, in elements, that MIOpen's getter would cut to 32 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wide {
    /// How many; more than [`MAX_RANK`] if the rest is not noted.
    pub rank: usize,
    /// Dimensions in the descriptor's order.
    pub dims: [u64; MAX_RANK],
    /// Strides in the same order.
    pub strides: [u64; MAX_RANK],
}

/// Of a tensor descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TensorNote {
    /// `miopenTensorLayout_t` where it is vectorised, CHWN, or a number that MIOpen does not define.
    pub layout: Option<Enum>,
    /// `miopenDataType_t` of `miopenSetTensorCastType`.
    pub cast_type: Option<Enum>,
    /// Dimensions and strides beyond 32 bits.
    pub wide: Option<Wide>,
}

/// Of a convolution descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ConvNote {
    /// Padding of a transposed convolution's output, for each spatial dimension. Never all zeros.
    pub output_padding: [i32; MAX_RANK],
    /// How many there are.
    pub spatial: usize,
}

/// All notes, by the descriptor's address.
#[derive(Debug)]
pub(crate) struct Notes {
    tensors: BTreeMap<usize, TensorNote>,
    convs: BTreeMap<usize, ConvNote>,
}

static NOTES: ForkLock<Notes> = ForkLock::new(Notes { tensors: BTreeMap::new(), convs: BTreeMap::new() });
/// How many notes there are, changed under the lock. Apart, so that notes of the one kind cost nothing where the other is asked for.
static TENSORS: AtomicUsize = AtomicUsize::new(0);
static CONVS: AtomicUsize = AtomicUsize::new(0);

pub(crate) fn notes() -> &'static ForkLock<Notes> {
    &NOTES
}

/// What was noted of the descriptor.
pub fn tensor(descriptor: TensorDescriptor) -> Option<TensorNote> {
    if TENSORS.load(Relaxed) == 0 {
        return None;
    }
    NOTES.lock().tensors.get(&descriptor.addr()).copied()
}

/// What was noted of the descriptor.
pub fn conv(descriptor: ConvolutionDescriptor) -> Option<ConvNote> {
    if CONVS.load(Relaxed) == 0 {
        return None;
    }
    NOTES.lock().convs.get(&descriptor.addr()).copied()
}

fn change(change: impl FnOnce(&mut Notes)) {
    let mut notes = NOTES.lock();
    change(&mut notes);
    TENSORS.store(notes.tensors.len(), Relaxed);
    CONVS.store(notes.convs.len(), Relaxed);
}

/// The descriptor was set anew: `note` is all that is known of it. An empty note is none.
pub fn set_tensor(descriptor: TensorDescriptor, note: TensorNote) {
    if note == TensorNote::default() {
        return forget_tensor(descriptor);
    }
    change(|notes| {
        notes.tensors.insert(descriptor.addr(), note);
    });
}

/// `miopenSetTensorCastType`, which changes nothing else. None: a cast to the tensor's own type, which is none.
pub fn set_cast_type(descriptor: TensorDescriptor, cast_type: Option<Enum>) {
    if cast_type.is_none() && TENSORS.load(Relaxed) == 0 {
        return;
    }
    change(|notes| {
        let note = notes.tensors.entry(descriptor.addr()).or_default();
        note.cast_type = cast_type;
        if *note == TensorNote::default() {
            notes.tensors.remove(&descriptor.addr());
        }
    });
}

/// The descriptor is set anew or about to be destroyed.
pub fn forget_tensor(descriptor: TensorDescriptor) {
    if TENSORS.load(Relaxed) != 0 {
        change(|notes| {
            notes.tensors.remove(&descriptor.addr());
        });
    }
}

/// The output padding was set; zeros are none.
pub fn set_output_padding(descriptor: ConvolutionDescriptor, padding: &[i32]) {
    if padding.iter().all(|&padding| padding == 0) {
        return forget_conv(descriptor);
    }
    let mut note = ConvNote { spatial: padding.len(), ..ConvNote::default() };
    for (place, &padding) in note.output_padding.iter_mut().zip(padding) {
        *place = padding;
    }
    change(|notes| {
        notes.convs.insert(descriptor.addr(), note);
    });
}

/// The descriptor is set anew or about to be destroyed.
pub fn forget_conv(descriptor: ConvolutionDescriptor) {
    if CONVS.load(Relaxed) != 0 {
        change(|notes| {
            notes.convs.remove(&descriptor.addr());
        });
    }
}
