//! AMD code objects: ELF files that hold kernels, and the note that says how each is launched.
//!
//! [`CodeObject::read`] checks what it gives: headers and segments within the file, the metadata note in form, and the note against
//! the payload: the processor and features of the ELF header, and the descriptor of every kernel. Nothing is executed, and nothing of
//! the machine code is looked at. Memory is in proportion to the file.
//!
//! Sources: the ELF header, the note and the descriptor are laid down in LLVM's user guide for the AMDGPU back end.
#![deny(clippy::as_conversions)]

mod elf;
mod error;
mod metadata;
mod msgpack;

pub use error::CodeObjectError;

use crate::target::processor::Processor;
use crate::target::{AmdTarget, Feature, LoadRefusal, Target};
use bytemuck::{Pod, Zeroable};
use elf::{Elf, Symbol};
use std::ops::Range;

/// A checked code object.
#[derive(Clone, Debug, PartialEq)]
pub struct CodeObject<'a> {
    /// Code object version, 4 to 6.
    pub version: u8,
    /// What the code is built for.
    pub target: AmdTarget,
    /// Of code for a generic processor: version of that processor, from 1 on. Otherwise 0.
    pub generic_version: u8,
    /// The kernels, in the order of the note.
    pub kernels: Vec<KernelInfo<'a>>,
}

/// A kernel, as the note has it. The payload says the same.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelInfo<'a> {
    /// Name by which the kernel is looked up.
    pub name: &'a str,
    /// Symbol of its descriptor: a name, and `.kd`.
    pub symbol: &'a str,
    /// Bytes of the kernarg segment, with hidden arguments.
    pub kernarg_size: u32,
    /// Alignment of the kernarg segment, a power of two.
    pub kernarg_align: u32,
    /// Arguments, all within the kernarg segment.
    pub args: Vec<KernelArg<'a>>,
    /// Bytes of LDS that a block takes.
    pub lds_size: u32,
    /// Bytes of scratch memory that a thread takes.
    pub private_size: u32,
    /// Threads of a wavefront, 32 or 64.
    pub wavefront_size: u32,
    /// Most threads of a block.
    pub max_workgroup_size: u32,
    /// Scalar registers of a wavefront.
    pub sgprs: u32,
    /// Vector registers of a thread; where they are one file, with the accumulation registers.
    pub vgprs: u32,
    /// Accumulation registers of a thread.
    pub agprs: u32,
    /// Scalar registers that were spilled.
    pub sgpr_spills: u32,
    /// Vector registers that were spilled.
    pub vgpr_spills: u32,
    /// Takes more scratch memory than can be told beforehand.
    pub uses_dynamic_stack: bool,
    /// Where the machine code of the kernel lies in the file.
    pub code: Range<u64>,
}

impl KernelInfo<'_> {
    /// The kernarg segment.
    pub fn kernarg(&self) -> Kernarg {
        Kernarg { size: self.kernarg_size, align: self.kernarg_align }
    }
}

/// A kernarg segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernarg {
    /// Bytes.
    pub size: u32,
    /// Alignment.
    pub align: u32,
}

impl Kernarg {
    /// It is that of one argument of so many bytes: nothing stands behind that but padding, which nobody reads. Were the segment larger,
    /// the kernel would read what nobody passes.
    pub fn is_of(self, argument: u32) -> bool {
        let padded = argument.checked_next_multiple_of(self.align.max(1)).unwrap_or(u32::MAX);
        (argument..=padded).contains(&self.size)
    }
}

/// An argument of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelArg<'a> {
    /// Place in the kernarg segment.
    pub offset: u32,
    /// Bytes.
    pub size: u32,
    /// What is passed.
    pub kind: ArgKind<'a>,
}

/// What an argument holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgKind<'a> {
    /// The value itself; of a struct all of it.
    ByValue,
    /// A pointer to global memory.
    GlobalBuffer,
    /// Something that the runtime fills in, by its name in the note: `hidden_...`.
    Hidden(&'a str),
    /// Anything else, by its name in the note.
    Other(&'a str),
}

/// The kernel descriptor, 64 bytes of the payload that the packet processor reads.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
struct Descriptor {
    group_size: u32,
    private_size: u32,
    kernarg_size: u32,
    reserved_12: u32,
    /// From the descriptor to the first instruction.
    entry: i64,
    reserved_24: [u32; 5],
    rsrc3: u32,
    rsrc1: u32,
    rsrc2: u32,
    properties: u16,
    preload: u16,
    reserved_60: u32,
}

const DESCRIPTOR: u64 = 64;
const _: () = assert!(size_of::<Descriptor>() == 64);
/// Properties: wavefronts of 32 threads; a stack whose size is not known.
const WAVE32: u16 = 1 << 10;
const DYNAMIC_STACK: u16 = 1 << 11;
/// Kinds of symbols.
const OBJECT: u8 = 1;
const FUNCTION: u8 = 2;
/// Kind of the metadata note.
const METADATA: u32 = 32;

impl<'a> CodeObject<'a> {
    /// Reads and checks a code object of version 4 to 6.
    ///
    /// # Errors
    /// What is no code object, is damaged, or does not say the same in all places.
    pub fn read(bytes: &'a [u8]) -> Result<Self, CodeObjectError> {
        let elf = Elf::open(bytes)?;
        let [.., abi, _, _, _, _, _, _, _] = elf.header.ident;
        let version = match abi {
            2..=4 => abi.saturating_add(2),
            _ => {
                let (field, expected) = ("the version of the ABI", "2 to 4 (code object version 4 to 6)");
                return Err(CodeObjectError::Header { field, found: abi.into(), expected });
            }
        };
        elf.check_segments()?;
        let notes = elf.notes(b"AMDGPU", METADATA)?;
        let &[note] = notes.as_slice() else {
            return Err(CodeObjectError::Count { what: "metadata notes", found: notes.len() });
        };
        let note = metadata::Note::read(note)?;
        let (target, generic_version) = target(elf.header.flags, note.target)?;
        let symbols = elf.symbols()?;
        let mut kernels = note.kernels;
        for kernel in &mut kernels {
            kernel.code = payload_of(kernel, elf, &symbols, version)?;
        }
        Ok(Self { version, target, generic_version, kernels })
    }

    /// The kernel of this name.
    pub fn kernel(&self, name: &str) -> Option<&KernelInfo<'a>> {
        self.kernels.iter().find(|k| k.name == name)
    }

    /// Whether the code runs on a device.
    ///
    /// # Errors
    /// Why it does not.
    pub fn loads_on(&self, device: &Target) -> Result<(), LoadRefusal> {
        Target::Amd(self.target.clone()).loads_on(device)
    }
}

/// Target and generic version, from the ELF header and the note.
fn target(flags: u32, text: &str) -> Result<(AmdTarget, u8), CodeObjectError> {
    let [machine, features, _, generic_version] = flags.to_le_bytes();
    let processor = Processor::of_machine(machine);
    let state = |bits: u8| match bits & 3 {
        2 => Feature::Off,
        3 => Feature::On,
        _ => Feature::Any,
    };
    let (xnack, sramecc) = (state(features), state(features >> 2));
    let target = match text.parse::<Target>()? {
        Target::Amd(target) => target,
        other => {
            return Err(CodeObjectError::Value {
                within: "the note".into(),
                key: "amdhsa.target",
                found: other.to_string(),
                expected: "an AMD target id".into(),
            });
        }
    };
    let disagree =
        |what, note: String, payload: String| Err(CodeObjectError::Disagreement { with: "the ELF header".into(), what, note, payload });
    // A number that is not in the table belongs to a processor that is not either.
    let agrees = match processor {
        Some(known) => known.name == target.processor(),
        None => !target.is_known(),
    };
    if !agrees {
        let payload = processor.map_or_else(|| format!("number {machine:#04x}"), |known| known.name.to_owned());
        return disagree("the processor", target.processor().to_owned(), payload);
    }
    for (what, note, payload) in [("sramecc", target.sramecc(), sramecc), ("xnack", target.xnack(), xnack)] {
        if note != payload {
            return disagree(what, note.to_string(), payload.to_string());
        }
    }
    if target.is_generic() != (generic_version != 0) {
        return disagree("the generic version", target.processor().to_owned(), format!("version {generic_version}"));
    }
    Ok((target, generic_version))
}

/// Finds what a kernel of the note is made of, and holds the two against each other. Gives the place of the machine code.
fn payload_of(kernel: &KernelInfo<'_>, elf: Elf<'_>, symbols: &[Symbol<'_>], version: u8) -> Result<Range<u64>, CodeObjectError> {
    let find = |name: &str| {
        let at = symbols.binary_search_by_key(&name.as_bytes(), |s| s.name).ok();
        at.and_then(|at| symbols.get(at)).ok_or_else(|| CodeObjectError::Symbol { symbol: name.to_owned() })
    };
    let symbol = find(kernel.symbol)?;
    let with = || format!("the descriptor {}", kernel.symbol);
    let disagree = |what, note: String, payload: String| Err(CodeObjectError::Disagreement { with: with(), what, note, payload });
    if symbol.kind != OBJECT || symbol.size != DESCRIPTOR {
        let payload = format!("a symbol of kind {} with {} bytes", symbol.kind, symbol.size);
        return disagree("its form", format!("an object of {DESCRIPTOR} bytes"), payload);
    }
    let nowhere = |what: String, address, size, kind| CodeObjectError::Address { what, address, size, kind };
    let (_, bytes) =
        elf.loaded(symbol.address, DESCRIPTOR, false).ok_or_else(|| nowhere(with(), symbol.address, DESCRIPTOR, "loaded data"))?;
    let descriptor: Descriptor = bytemuck::try_pod_read_unaligned(bytes).unwrap_or_else(|_| Descriptor::zeroed());
    for (what, note, payload) in [
        ("the size of the kernarg segment", kernel.kernarg_size, descriptor.kernarg_size),
        ("the size of LDS", kernel.lds_size, descriptor.group_size),
        ("the size of scratch memory", kernel.private_size, descriptor.private_size),
        ("the size of a wavefront", kernel.wavefront_size, if descriptor.properties & WAVE32 == 0 { 64 } else { 32 }),
    ] {
        if note != payload {
            return disagree(what, note.to_string(), payload.to_string());
        }
    }
    let dynamic = descriptor.properties & DYNAMIC_STACK != 0;
    if version >= 5 && dynamic != kernel.uses_dynamic_stack {
        return disagree("the dynamic stack", kernel.uses_dynamic_stack.to_string(), dynamic.to_string());
    }
    // The code begins where the descriptor says, and is as long as its own symbol says.
    let code = find(kernel.symbol.strip_suffix(".kd").unwrap_or(kernel.symbol))?;
    let entry = symbol.address.checked_add_signed(descriptor.entry);
    if code.kind != FUNCTION || entry != Some(code.address) {
        let payload = format!("offset {:#x} from {:#x}", descriptor.entry, symbol.address);
        return disagree("where the code begins", format!("function at {:#x}", code.address), payload);
    }
    let what = || format!("the code of {}", kernel.name);
    let (offset, code) =
        elf.loaded(code.address, code.size, true).ok_or_else(|| nowhere(what(), code.address, code.size, "loaded code"))?;
    Ok(offset..offset.saturating_add(elf::len_of(code)))
}
