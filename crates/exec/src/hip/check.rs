//! Checking a program, which may come from a hostile payload, and laying it out for execution.
#![deny(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::unreachable,
    reason = "whatever is in a payload must not make its reader panic"
)]

use super::program::{ArgumentPatch, HipProgram, HipTensor, Launch, PatchSource, ScalarType, TensorPlace};
use super::scalar::Conversion;
use crate::argument_table::span_bytes;
use crate::arguments::BindingIx;
use crate::workspace::HIP_WORKSPACE_ALIGN;
use hipplan_serialize::plan::{ArchivedPlanMetaV1, BindingKind, BindingRole};
use std::collections::HashSet;
use std::ffi::CString;
use std::ops::Range;

/// Most threads that a block may have on any AMD GPU.
const MAX_BLOCK: u32 = 1024;
/// Most blocks of a grid in x, and in y and z, that every HIP device takes.
const MAX_GRID_X: u32 = i32::MAX as u32;
const MAX_GRID_YZ: u32 = 65_535;
/// Kernarg templates start at multiples of it.
const KERNARG_ALIGN: u32 = 8;

/// What is wrong with a program.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the message of each variant says what its fields are")]
pub enum HipProgramError {
    /// The payload's body is no program.
    #[error("its archive is damaged: {reason}")]
    Archive { reason: String },
    /// A position beyond what there is.
    #[error("{what} {at}: {field} is {found}, there are {count}")]
    Position { what: &'static str, at: usize, field: &'static str, found: u32, count: usize },
    /// A range beyond what holds it.
    #[error("{what} {at}: {bytes} {unit} from {start} are not within {limit}")]
    Range { what: &'static str, at: usize, unit: &'static str, start: u64, bytes: u64, limit: u64 },
    /// Ranges that must follow one another.
    #[error("{what} {at}: {field} starts at {found}, which is not behind what comes before it ({expected})")]
    Overlap { what: &'static str, at: usize, field: &'static str, found: u64, expected: u64 },
    /// A number that is not aligned.
    #[error("{what} {at}: {field} is {found}, expected a multiple of {expected}")]
    Alignment { what: &'static str, at: usize, field: &'static str, found: u64, expected: u64 },
    /// A value out of its range.
    #[error("{what} {at}: {field} is {found}, expected {expected}")]
    Value { what: &'static str, at: usize, field: &'static str, found: String, expected: String },
    /// A tensor that is not what the plan's binding says.
    #[error("tensor {tensor}: ordinal {ordinal}: {field} is {found}, the plan's binding says {expected}")]
    Binding { tensor: usize, ordinal: u32, field: &'static str, found: String, expected: String },
    /// A binding that the program must write, and does not.
    #[error("the plan's output at ordinal {ordinal} is written by no launch")]
    Unwritten { ordinal: u32 },
    /// The metadata asks for another workspace.
    #[error("it needs {found} bytes of workspace, the plan's metadata says {expected}")]
    Workspace { found: u64, expected: u64 },
}

use HipProgramError as E;

/// A program that has been checked, in flat arrays in the order in which they are walked.
#[derive(Debug, Default)]
pub(super) struct Checked {
    /// Words of the kernarg templates, all launches in one.
    pub(super) kernargs: Vec<u64>,
    /// Kernarg word and binding of device addresses.
    pub(super) addresses: Vec<(u32, BindingIx)>,
    /// Kernarg word and byte offset of addresses in the workspace.
    pub(super) workspace: Vec<(u32, u64)>,
    /// Scalars that are converted into the kernargs.
    pub(super) scalars: Vec<ScalarPatch>,
    pub(super) kernels: Vec<Kernel>,
    pub(super) launches: Vec<CheckedLaunch>,
}

/// A scalar that a launch takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScalarPatch {
    /// Byte offset in the kernargs, aligned for what is written.
    pub(super) at: u32,
    pub(super) binding: BindingIx,
    pub(super) conversion: Conversion,
}

/// A kernel to be found in a code object.
#[derive(Debug)]
pub(super) struct Kernel {
    /// Position in the plan's metadata.
    pub(super) code_object: usize,
    pub(super) name: CString,
    pub(super) kernarg_size: u32,
    pub(super) block: u32,
}

/// A launch that may be made.
#[derive(Clone, Copy, Debug)]
pub(super) struct CheckedLaunch {
    /// Position in `kernels`.
    pub(super) kernel: u32,
    pub(super) grid: [u32; 3],
    pub(super) block: u32,
    /// First word of its kernarg.
    pub(super) kernarg_word: u32,
    pub(super) kernarg_bytes: u32,
}

/// Where a tensor is found.
#[derive(Clone, Copy)]
enum Located {
    Binding(BindingIx),
    Scalar(BindingIx, hipplan_serialize::DataType),
    Workspace(u64),
}

impl HipProgram {
    /// The program in the body of a plan's payload, all of it checked as [`HipLoader`](super::HipLoader) does: positions and ranges are
    /// within what they name, and tensors are those of the plan's bindings.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn read(body: &[u8], meta: &ArchivedPlanMetaV1) -> Result<Self, HipProgramError> {
        read(body, meta).map(|(program, _)| program)
    }
}

/// The program in a payload's body, and the same laid out for execution.
pub(super) fn read(body: &[u8], meta: &ArchivedPlanMetaV1) -> Result<(HipProgram, Checked), E> {
    let program = rkyv::from_bytes::<HipProgram, rkyv::rancor::Error>(body).map_err(|e| E::Archive { reason: e.to_string() })?;
    let checked = check(&program, meta)?;
    Ok((program, checked))
}

/// Checks all of a program against itself and against the plan's metadata. What kernels do with what they are given is theirs.
///
/// # Errors
/// The first thing that is wrong.
fn check(program: &HipProgram, meta: &ArchivedPlanMetaV1) -> Result<Checked, E> {
    let expected = meta.workspace_size.to_native();
    if program.workspace_size != expected {
        return Err(E::Workspace { found: program.workspace_size, expected });
    }
    let tensors = tensors(program, meta)?;
    let mut checked = Checked { kernels: kernels(program, meta.code_objects.len())?, ..Checked::default() };
    checked.kernargs = words(&program.kernargs);
    let (mut kernarg_end, mut patch_end) = (0_u64, 0_u64);
    let mut addressed = HashSet::with_capacity(program.tensors.len());
    for (at, launch) in program.launches.iter().enumerate() {
        let (block, bytes) = launch_kernel(program, at, launch)?;
        let start = within("launch", at, "kernarg bytes", launch.kernarg_at, bytes, program.kernargs.len())?;
        if !launch.kernarg_at.is_multiple_of(KERNARG_ALIGN) {
            let (found, expected) = (launch.kernarg_at.into(), KERNARG_ALIGN.into());
            return Err(E::Alignment { what: "launch", at, field: "kernarg_at", found, expected });
        }
        follows(at, "its kernarg", &start, &mut kernarg_end)?;
        let patches = within("launch", at, "patches", launch.patches_at, launch.patches, program.patches.len())?;
        follows(at, "its first patch", &patches, &mut patch_end)?;
        let range = (usize::try_from(patches.start).ok()).zip(usize::try_from(patches.end).ok());
        let own = range.and_then(|(start, end)| program.patches.get(start..end)).unwrap_or_default();
        addressed.extend(own.iter().map(|patch| patch.tensor));
        let first = usize::try_from(patches.start).unwrap_or(usize::MAX);
        patch(&mut checked, &tensors, own, first, launch, bytes)?;
        let kernarg_word = launch.kernarg_at / KERNARG_ALIGN;
        checked.launches.push(CheckedLaunch { kernel: launch.kernel, grid: launch.grid, block, kernarg_word, kernarg_bytes: bytes });
    }
    // What a program says that it writes, some launch must at least be given the address of.
    let unwritten = (0..).zip(&program.tensors).find_map(|(at, tensor)| match tensor.place {
        TensorPlace::External { ordinal } if tensor.written && !addressed.contains(&at) => Some(ordinal),
        _ => None,
    });
    match unwritten {
        Some(ordinal) => Err(E::Unwritten { ordinal }),
        None => Ok(checked),
    }
}

/// Where each tensor is found; the caller's buffers are checked against the bindings, so these must be what the program addresses.
fn tensors(program: &HipProgram, meta: &ArchivedPlanMetaV1) -> Result<Vec<Located>, E> {
    let bindings = &meta.bindings;
    let mut written = vec![false; bindings.len()];
    let mut located = Vec::with_capacity(program.tensors.len());
    for (at, tensor) in program.tensors.iter().enumerate() {
        let &HipTensor { place, bytes, written: is_written } = tensor;
        let ordinal = match place {
            TensorPlace::Workspace { offset } => {
                workspace(at, offset, bytes, program.workspace_size)?;
                located.push(Located::Workspace(offset));
                continue;
            }
            TensorPlace::External { ordinal } | TensorPlace::Scalar { ordinal } => ordinal,
        };
        let fail = |field, found: String, expected: String| E::Binding { tensor: at, ordinal, field, found, expected };
        let position = bindings.binary_search_by_key(&ordinal, |b| b.ordinal.to_native());
        let Some((position, b)) = position.ok().and_then(|position| Some((position, bindings.get(position)?))) else {
            return Err(fail("it", "a tensor".to_owned(), "nothing".to_owned()));
        };
        let ix = BindingIx::new(u32::try_from(position).unwrap_or(u32::MAX));
        let is_scalar = matches!(place, TensorPlace::Scalar { .. });
        if is_scalar == (b.kind() == BindingKind::Device) {
            let found = if is_scalar { "a host scalar" } else { "a device tensor" };
            return Err(fail("it", found.to_owned(), format!("a tensor of kind {}", b.kind().name())));
        }
        if is_written && b.role() != BindingRole::Output {
            return Err(fail("its role", "written".to_owned(), "an input".to_owned()));
        }
        match span_bytes(b) {
            Some(span) if span == bytes => {}
            span => {
                let span = span.map_or("a span beyond 64 bits".to_owned(), |span| format!("{span} bytes"));
                return Err(fail("its size", format!("{bytes} bytes"), span));
            }
        }
        if let Some(slot) = written.get_mut(position) {
            *slot |= is_written;
        }
        located.push(if is_scalar { Located::Scalar(ix, b.dtype()) } else { Located::Binding(ix) });
    }
    let unwritten = bindings.iter().zip(&written).find(|(b, written)| b.role() == BindingRole::Output && !**written);
    match unwritten {
        Some((b, _)) => Err(E::Unwritten { ordinal: b.ordinal.to_native() }),
        None => Ok(located),
    }
}

fn workspace(at: usize, offset: u64, bytes: u64, size: u64) -> Result<(), E> {
    let align = HIP_WORKSPACE_ALIGN as u64;
    if !offset.is_multiple_of(align) {
        return Err(E::Alignment { what: "tensor", at, field: "its workspace offset", found: offset, expected: align });
    }
    match offset.checked_add(bytes) {
        Some(end) if end <= size => Ok(()),
        _ => Err(E::Range { what: "tensor", at, unit: "bytes of workspace", start: offset, bytes, limit: size }),
    }
}

fn kernels(program: &HipProgram, code_objects: usize) -> Result<Vec<Kernel>, E> {
    let check = |(at, kernel): (usize, &super::KernelEntry)| {
        let value = |field, found: String, expected: &str| E::Value { what: "kernel", at, field, found, expected: expected.to_owned() };
        let code_object = usize::try_from(kernel.code_object).unwrap_or(usize::MAX);
        if code_object >= code_objects {
            let found = kernel.code_object;
            return Err(E::Position { what: "kernel", at, field: "code object", found, count: code_objects });
        }
        let name = CString::new(kernel.name.as_str()).ok().filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| value("name", format!("{:?}", kernel.name), "some text without a zero byte"))?;
        if !(1..=MAX_BLOCK).contains(&kernel.block) {
            return Err(value("block", kernel.block.to_string(), "1 to 1024 threads"));
        }
        if kernel.kernarg_size == 0 {
            return Err(value("kernarg_size", "0".to_owned(), "at least 1: a kernel without arguments does nothing"));
        }
        Ok(Kernel { code_object, name, kernarg_size: kernel.kernarg_size, block: kernel.block })
    };
    program.kernels.iter().enumerate().map(check).collect()
}

/// Block and kernarg bytes of a launch's kernel, once its grid has been checked.
fn launch_kernel(program: &HipProgram, at: usize, launch: &Launch) -> Result<(u32, u32), E> {
    let kernel = usize::try_from(launch.kernel).ok().and_then(|kernel| program.kernels.get(kernel));
    let Some(kernel) = kernel else {
        return Err(E::Position { what: "launch", at, field: "kernel", found: launch.kernel, count: program.kernels.len() });
    };
    // A dispatch counts threads in 32 bits for each dimension; a block has one in y and z.
    let [x, y, z] = launch.grid;
    let most_x = MAX_GRID_X.min(u32::MAX.checked_div(kernel.block).unwrap_or(0));
    if ![(x, most_x), (y, MAX_GRID_YZ), (z, MAX_GRID_YZ)].iter().all(|&(blocks, most)| (1..=most).contains(&blocks)) {
        let expected = format!("1 to {most_x} x {MAX_GRID_YZ} x {MAX_GRID_YZ}, which HIP can launch of blocks of {}", kernel.block);
        return Err(E::Value { what: "launch", at, field: "grid", found: format!("{x} x {y} x {z} blocks"), expected });
    }
    Ok((kernel.block, kernel.kernarg_size))
}

/// A range of so many units, if it lies within `len` of them.
fn within(what: &'static str, at: usize, unit: &'static str, start: u32, count: u32, len: usize) -> Result<Range<u64>, E> {
    let (start, bytes, limit) = (u64::from(start), u64::from(count), u64::try_from(len).unwrap_or(u64::MAX));
    match start.checked_add(bytes) {
        Some(end) if end <= limit => Ok(start..end),
        _ => Err(E::Range { what, at, unit, start, bytes, limit }),
    }
}

/// The ranges of launches follow one another, so that none changes what another uses.
fn follows(at: usize, field: &'static str, range: &Range<u64>, end: &mut u64) -> Result<(), E> {
    if range.start < *end {
        return Err(E::Overlap { what: "launch", at, field, found: range.start, expected: *end });
    }
    *end = range.end;
    Ok(())
}

/// Sorts a launch's patches into the arrays of what they write. `first` is the position of the first of them in the program, for messages.
fn patch(
    checked: &mut Checked,
    tensors: &[Located],
    patches: &[ArgumentPatch],
    first: usize,
    launch: &Launch,
    kernarg_bytes: u32,
) -> Result<(), E> {
    let mut taken: Vec<Range<u64>> = Vec::with_capacity(patches.len());
    for (at, patch) in (first..).zip(patches) {
        let value = |field, found: &str, expected: &str| {
            let (found, expected) = (found.to_owned(), expected.to_owned());
            E::Value { what: "patch", at, field, found, expected }
        };
        let located = usize::try_from(patch.tensor).ok().and_then(|tensor| tensors.get(tensor));
        let Some(&located) = located else {
            return Err(E::Position { what: "patch", at, field: "tensor", found: patch.tensor, count: tensors.len() });
        };
        let size = match patch.source {
            PatchSource::Address | PatchSource::Value(ScalarType::F64) => 8,
            PatchSource::Value(ScalarType::F32) => 4,
        };
        let limit = usize::try_from(kernarg_bytes).unwrap_or(usize::MAX);
        let range = within("patch", at, "kernarg bytes", patch.offset, size, limit)?;
        if !patch.offset.is_multiple_of(size) {
            return Err(E::Alignment { what: "patch", at, field: "offset", found: patch.offset.into(), expected: size.into() });
        }
        taken.push(range);
        // Both lie within the templates, which 32 bits count.
        let byte = launch.kernarg_at.saturating_add(patch.offset);
        let word = byte / KERNARG_ALIGN;
        match (patch.source, located) {
            (PatchSource::Address, Located::Binding(binding)) => checked.addresses.push((word, binding)),
            (PatchSource::Address, Located::Workspace(offset)) => checked.workspace.push((word, offset)),
            (PatchSource::Value(ty), Located::Scalar(binding, dtype)) => {
                let Some(conversion) = Conversion::new(dtype, ty) else {
                    return Err(value("tensor", &format!("a scalar of type {dtype}"), "a type that a kernel takes by value"));
                };
                checked.scalars.push(ScalarPatch { at: byte, binding, conversion });
            }
            (PatchSource::Address, Located::Scalar(..)) => {
                return Err(value("source", "an address", "a value: the tensor is a host scalar"));
            }
            (PatchSource::Value(_), _) => return Err(value("source", "a value", "an address: the tensor is in device memory")),
        }
    }
    taken.sort_unstable_by_key(|range| range.start);
    match taken.iter().zip(taken.iter().skip(1)).find(|(before, after)| after.start < before.end) {
        Some((before, after)) => {
            let (found, expected) = (after.start, before.end);
            Err(E::Overlap { what: "patches from", at: first, field: "one of them", found, expected })
        }
        None => Ok(()),
    }
}

/// Bytes as words in the order of this machine's memory, padded with zeros.
fn words(bytes: &[u8]) -> Vec<u64> {
    let word = |chunk: &[u8]| {
        let mut word = [0; 8];
        word.iter_mut().zip(chunk).for_each(|(to, from)| *to = *from);
        u64::from_ne_bytes(word)
    };
    bytes.chunks(8).map(word).collect()
}
