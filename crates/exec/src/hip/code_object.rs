//! Whether bytes can be a code object of a target at all, before HIP sees them.

use hipplan_serialize::Target;

const ELF_MAGIC: &[u8] = b"\x7fELF";
const ELF_HEADER: usize = 64;
const CLASS_64: u8 = 2;
const LITTLE_ENDIAN: u8 = 1;
const EM_AMDGPU: u16 = 224;

/// Checks what an AMD GPU's code object starts with. Targets of tests have formats of their own.
pub(super) fn check(bytes: &[u8], target: &Target) -> Result<(), String> {
    let Target::Amd(_) = target else { return Ok(()) };
    let Some(header) = bytes.first_chunk::<ELF_HEADER>() else {
        return Err(format!("its {} bytes are fewer than the {ELF_HEADER} of an ELF header", bytes.len()));
    };
    if !header.starts_with(ELF_MAGIC) {
        return Err("it is no ELF file".to_owned());
    }
    let [_, _, _, _, class, data, ..] = *header;
    if (class, data) != (CLASS_64, LITTLE_ENDIAN) {
        return Err(format!("its ELF class and byte order are {class} and {data}, expected {CLASS_64} and {LITTLE_ENDIAN}"));
    }
    let machine = u16::from_le_bytes([header[18], header[19]]);
    if machine != EM_AMDGPU {
        return Err(format!("it is for ELF machine {machine}, expected {EM_AMDGPU} (AMD GPU)"));
    }
    Ok(())
}
