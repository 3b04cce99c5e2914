//! Holds a compiled kernel against what its source promises.
//!
//! Plans store the argument layout and launch what they store, so a code object that wants anything else (hidden arguments, scratch
//! memory, another layout) must never become part of one.

use super::KernelSource;
use hipplan_serialize::code_object::{ArgKind, CodeObject, KernelInfo};
use hipplan_serialize::{AmdTarget, Target};

/// Bytes of LDS that a block may take on every target.
pub const LDS_LIMIT: u32 = 64 << 10;

/// A promise that a code object does not keep.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// Another target.
    #[error("the code is for {found}, expected {expected}")]
    Target {
        /// Target of the code.
        found: String,
        /// What was asked for.
        expected: String,
    },
    /// Not one kernel of the source's name.
    #[error("the kernels are [{}], expected {expected} alone: a text defines one extern \"C\" kernel", .found.join(", "))]
    Kernels {
        /// Names of the kernels.
        found: Vec<String>,
        /// Name of the source's kernel.
        expected: String,
    },
    /// Arguments that the launch would not fill in.
    #[error("the runtime would have to fill in {found}: the text must not use blockDim, gridDim, printf, assert or dynamic LDS")]
    HiddenArguments {
        /// Their names.
        found: String,
    },
    /// Another argument layout.
    #[error("the arguments are {found}, expected one struct of {expected} bytes by value at offset 0")]
    Arguments {
        /// What the note says.
        found: String,
        /// Size of the struct.
        expected: u32,
    },
    /// Another size of the kernarg segment.
    #[error("the kernarg segment has {found} bytes, expected {expected}")]
    KernargSize {
        /// What the note says.
        found: u32,
        /// Size of the struct.
        expected: u32,
    },
    /// Scratch memory.
    #[error("a thread takes {found} bytes of scratch memory, expected 0: index private arrays by constants only, or make the tile smaller")]
    Scratch {
        /// Bytes.
        found: u32,
    },
    /// A stack.
    #[error("the kernel takes a stack of unknown size, expected none: no recursion, no function pointers, every function inline")]
    DynamicStack,
    /// Spilled registers.
    #[error("{vgprs} vector and {sgprs} scalar registers are spilled, expected 0: make the tile or the block smaller")]
    Spills {
        /// Vector registers.
        vgprs: u32,
        /// Scalar registers.
        sgprs: u32,
    },
    /// Too much LDS.
    #[error("a block takes {found} bytes of LDS, expected at most {LDS_LIMIT}: make the tile smaller")]
    Lds {
        /// Bytes.
        found: u32,
    },
    /// A block that is too large for the code.
    #[error("the code is for blocks of at most {found} threads, expected {expected}: KERNEL states another block than the source")]
    Block {
        /// What the note says.
        found: u32,
        /// Threads of the source's block.
        expected: u32,
    },
    /// More registers than a block can have.
    #[error(
        "a thread takes {found} vector registers, expected at most {expected} in blocks of {block}: make the tile or the block smaller"
    )]
    Registers {
        /// What the note says.
        found: u32,
        /// What the processor has.
        expected: u32,
        /// Threads of the block.
        block: u32,
    },
}

/// Checks a code object that a compiler made of a source.
///
/// # Errors
/// The first promise that it does not keep.
pub fn check(object: &CodeObject<'_>, source: &KernelSource, target: &AmdTarget) -> Result<(), Violation> {
    if object.target != *target {
        return Err(Violation::Target { found: object.target.to_string(), expected: target.to_string() });
    }
    let kernel = match &object.kernels[..] {
        [kernel] if kernel.name == source.name && kernel.symbol.strip_suffix(".kd") == Some(&source.name) => kernel,
        list => {
            let found = list.iter().map(|k| k.name.to_owned()).collect();
            return Err(Violation::Kernels { found, expected: source.name.clone() });
        }
    };
    arguments(kernel, source.kernarg_size)?;
    let promises = [
        (kernel.private_size == 0, Violation::Scratch { found: kernel.private_size }),
        (kernel.vgpr_spills == 0 && kernel.sgpr_spills == 0, Violation::Spills { vgprs: kernel.vgpr_spills, sgprs: kernel.sgpr_spills }),
        (!kernel.uses_dynamic_stack, Violation::DynamicStack),
        (kernel.lds_size <= LDS_LIMIT, Violation::Lds { found: kernel.lds_size }),
        (kernel.max_workgroup_size >= source.block, Violation::Block { found: kernel.max_workgroup_size, expected: source.block }),
    ];
    if let Some((_, broken)) = promises.into_iter().find(|(kept, _)| !kept) {
        return Err(broken);
    }
    let expected = register_limit(target, kernel.wavefront_size, source.block);
    match kernel.vgprs {
        found if found > expected => Err(Violation::Registers { found, expected, block: source.block }),
        _ => Ok(()),
    }
}

/// One struct by value, and nothing else.
fn arguments(kernel: &KernelInfo<'_>, size: u32) -> Result<(), Violation> {
    let hidden: Vec<_> = kernel.args.iter().filter_map(|a| if let ArgKind::Hidden(name) = a.kind { Some(name) } else { None }).collect();
    if !hidden.is_empty() {
        return Err(Violation::HiddenArguments { found: hidden.join(", ") });
    }
    if !matches!(&kernel.args[..], [arg] if arg.offset == 0 && arg.size == size && arg.kind == ArgKind::ByValue) {
        let found: Vec<_> = kernel.args.iter().map(|a| format!("{:?} of {} bytes at {}", a.kind, a.size, a.offset)).collect();
        return Err(Violation::Arguments { found: format!("[{}]", found.join(", ")), expected: size });
    }
    if !kernel.kernarg().is_of(size) {
        return Err(Violation::KernargSize { found: kernel.kernarg_size, expected: size });
    }
    Ok(())
}

/// Vector registers that a thread may take so that a block still fits a compute unit (before gfx10) or a work-group processor.
///
/// Both have four SIMDs; the waves of a block are spread over them evenly. A SIMD has registers for 256 (with accumulation registers 512)
/// each of one wave of 64 before gfx10, and for 1024 (some have 1536) each of one wave of 32 from then on. A wave can address 256, with
/// accumulation registers 512, on gfx1250 1024.
fn register_limit(target: &AmdTarget, wavefront: u32, block: u32) -> u32 {
    let waves = block.div_ceil(wavefront).div_ceil(4).max(1);
    let (addressable, file) = match target.processor() {
        "gfx90a" | "gfx940" | "gfx941" | "gfx942" | "gfx950" | "gfx9-4-generic" => (512, 512),
        "gfx1250" | "gfx1251" => (1024, 1024),
        old if old.starts_with("gfx9") => (256, 256),
        _ => (256, 1024 * 32 / wavefront),
    };
    addressable.min(file / waves)
}

/// The AMD target among targets.
pub(super) fn amd(target: &Target) -> Result<&AmdTarget, String> {
    match target {
        Target::Amd(target) => Ok(target),
        Target::Cpu | Target::Test(_) => Err("it compiles for AMD GPUs only".to_owned()),
    }
}
