//! What is known of AMD's processors.
//!
//! Source: LLVM's user guide for the AMDGPU back end (processors, generic processors, ELF header) and the headers of code objects made
//! by clang 19 and 22 for every line here that they compile for.

/// A processor that hipplan knows.
#[derive(Debug)]
pub(crate) struct Processor {
    /// Name.
    pub(crate) name: &'static str,
    /// `EF_AMDGPU_MACH` of the ELF header.
    pub(crate) machine: u8,
    /// Has a setting for error-correcting memory that code may depend on.
    pub(crate) sramecc: bool,
    /// Has a setting for the replay of page faults that code may depend on.
    pub(crate) xnack: bool,
    /// The generic processor whose code it runs; of a generic processor: nothing.
    pub(crate) generic: Option<&'static str>,
}

impl Processor {
    /// The processor of this name.
    pub(crate) fn of_name(name: &str) -> Option<&'static Self> {
        PROCESSORS.iter().find(|p| p.name == name)
    }

    /// The processor of this machine number.
    pub(crate) fn of_machine(machine: u8) -> Option<&'static Self> {
        PROCESSORS.iter().find(|p| p.machine == machine)
    }

    /// The processors that run a generic processor's code, in the order of the table; of another: none.
    pub(crate) fn members(generic: &str) -> impl Iterator<Item = &'static str> {
        PROCESSORS.iter().filter(move |p| p.generic == Some(generic)).map(|p| p.name)
    }
}

const fn line(name: &'static str, machine: u8, features: &str, generic: Option<&'static str>) -> Processor {
    let (sramecc, xnack) = match features.as_bytes() {
        b"sx" => (true, true),
        b"x" => (false, true),
        _ => (false, false),
    };
    Processor { name, machine, sramecc, xnack, generic }
}

const GFX9: Option<&str> = Some("gfx9-generic");
const GFX9_4: Option<&str> = Some("gfx9-4-generic");
const GFX10_1: Option<&str> = Some("gfx10-1-generic");
const GFX10_3: Option<&str> = Some("gfx10-3-generic");
const GFX11: Option<&str> = Some("gfx11-generic");
const GFX12: Option<&str> = Some("gfx12-generic");

/// Features: `s` sramecc, `x` xnack.
#[rustfmt::skip]
pub(super) static PROCESSORS: [Processor; 55] = [
    line("gfx600", 0x20, "", None),
    line("gfx601", 0x21, "", None),
    line("gfx602", 0x3a, "", None),
    line("gfx700", 0x22, "", None),
    line("gfx701", 0x23, "", None),
    line("gfx702", 0x24, "", None),
    line("gfx703", 0x25, "", None),
    line("gfx704", 0x26, "", None),
    line("gfx705", 0x3b, "", None),
    line("gfx801", 0x28, "x", None),
    line("gfx802", 0x29, "", None),
    line("gfx803", 0x2a, "", None),
    line("gfx805", 0x3c, "", None),
    line("gfx810", 0x2b, "x", None),
    line("gfx900", 0x2c, "x", GFX9),
    line("gfx902", 0x2d, "x", GFX9),
    line("gfx904", 0x2e, "x", GFX9),
    line("gfx906", 0x2f, "sx", GFX9),
    line("gfx908", 0x30, "sx", None),
    line("gfx909", 0x31, "x", GFX9),
    line("gfx90a", 0x3f, "sx", None),
    line("gfx90c", 0x32, "x", GFX9),
    line("gfx940", 0x40, "sx", GFX9_4),
    line("gfx941", 0x4b, "sx", GFX9_4),
    line("gfx942", 0x4c, "sx", GFX9_4),
    line("gfx950", 0x4f, "sx", GFX9_4),
    line("gfx1010", 0x33, "x", GFX10_1),
    line("gfx1011", 0x34, "x", GFX10_1),
    line("gfx1012", 0x35, "x", GFX10_1),
    line("gfx1013", 0x42, "x", GFX10_1),
    line("gfx1030", 0x36, "", GFX10_3),
    line("gfx1031", 0x37, "", GFX10_3),
    line("gfx1032", 0x38, "", GFX10_3),
    line("gfx1033", 0x39, "", GFX10_3),
    line("gfx1034", 0x3e, "", GFX10_3),
    line("gfx1035", 0x3d, "", GFX10_3),
    line("gfx1036", 0x45, "", GFX10_3),
    line("gfx1100", 0x41, "", GFX11),
    line("gfx1101", 0x46, "", GFX11),
    line("gfx1102", 0x47, "", GFX11),
    line("gfx1103", 0x44, "", GFX11),
    line("gfx1150", 0x43, "", GFX11),
    line("gfx1151", 0x4a, "", GFX11),
    line("gfx1152", 0x55, "", GFX11),
    line("gfx1153", 0x58, "", GFX11),
    line("gfx1200", 0x48, "", GFX12),
    line("gfx1201", 0x4e, "", GFX12),
    line("gfx1250", 0x49, "sx", None),
    line("gfx1251", 0x5a, "sx", None),
    line("gfx9-generic", 0x51, "x", None),
    line("gfx9-4-generic", 0x5f, "sx", None),
    line("gfx10-1-generic", 0x52, "x", None),
    line("gfx10-3-generic", 0x53, "", None),
    line("gfx11-generic", 0x54, "", None),
    line("gfx12-generic", 0x59, "", None),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_are_unique_and_families_exist() {
        for (i, p) in PROCESSORS.iter().enumerate() {
            assert!(PROCESSORS[..i].iter().all(|q| q.name != p.name && q.machine != p.machine), "{p:?}");
            if let Some(generic) = p.generic {
                let generic = Processor::of_name(generic).expect("in the table");
                // A generic processor has no feature that a member lacks.
                assert!(generic.machine != p.machine && (p.sramecc || !generic.sramecc) && (p.xnack || !generic.xnack), "{p:?}");
            }
            assert_eq!(p.name.ends_with("-generic"), Processor::members(p.name).next().is_some(), "{p:?}");
        }
    }
}
