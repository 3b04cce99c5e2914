//! The metadata note: a map of MessagePack with one entry for every kernel.

use super::error::CodeObjectError;
use super::msgpack::Reader;
use super::{ArgKind, KernelArg, KernelInfo};

/// The note as it stands.
#[derive(Debug)]
pub(super) struct Note<'a> {
    /// `amdhsa.target`, which notes have from code object version 4 on.
    pub(super) target: &'a str,
    pub(super) kernels: Vec<KernelInfo<'a>>,
}

/// A value that a map must state once.
struct Slot<T> {
    key: &'static str,
    value: Option<T>,
}

impl<T> Slot<T> {
    const fn new(key: &'static str) -> Self {
        Self { key, value: None }
    }

    fn put(&mut self, within: &str, value: T) -> Result<(), CodeObjectError> {
        match self.value.replace(value) {
            None => Ok(()),
            Some(_) => Err(CodeObjectError::Twice { within: within.to_owned(), key: self.key }),
        }
    }

    fn get(self, within: &str) -> Result<T, CodeObjectError> {
        self.value.ok_or_else(|| CodeObjectError::Missing { within: within.to_owned(), key: self.key })
    }
}

impl<'a> Note<'a> {
    pub(super) fn read(bytes: &'a [u8]) -> Result<Self, CodeObjectError> {
        const WITHIN: &str = "the note";
        let (mut version, mut target, mut kernels) = (Slot::new("amdhsa.version"), Slot::new("amdhsa.target"), Slot::new("amdhsa.kernels"));
        let mut reader = Reader::new(bytes);
        for _ in 0..reader.map()? {
            match reader.string()? {
                "amdhsa.version" => {
                    let parts = reader.list()?;
                    let major = if parts == 0 { 0 } else { reader.u32()? };
                    for _ in 1..parts {
                        reader.skip()?;
                    }
                    version.put(WITHIN, major)?;
                }
                "amdhsa.target" => target.put(WITHIN, reader.string()?)?,
                "amdhsa.kernels" => {
                    let mut list = Vec::new();
                    for number in 0..reader.list()? {
                        list.push(kernel(&mut reader, number)?);
                    }
                    kernels.put(WITHIN, list)?;
                }
                _ => reader.skip()?,
            }
        }
        if !reader.is_done() {
            reader.skip()?;
            return Err(CodeObjectError::Count { what: "values in the metadata note", found: 2 });
        }
        let major = version.get(WITHIN)?;
        if major != 1 {
            return Err(CodeObjectError::Value {
                within: WITHIN.into(),
                key: "amdhsa.version",
                found: major.to_string(),
                expected: "1".into(),
            });
        }
        Ok(Self { target: target.get(WITHIN)?, kernels: kernels.get(WITHIN)? })
    }
}

fn kernel<'a>(reader: &mut Reader<'a>, number: u32) -> Result<KernelInfo<'a>, CodeObjectError> {
    let within = format!("kernel {number}");
    let within = within.as_str();
    let (mut name, mut symbol, mut args) = (Slot::new(".name"), Slot::new(".symbol"), Slot::new(".args"));
    let mut dynamic_stack = Slot::new(".uses_dynamic_stack");
    // The numbers, in the order in which they are taken below.
    let mut numbers = [
        ".kernarg_segment_size",
        ".kernarg_segment_align",
        ".group_segment_fixed_size",
        ".private_segment_fixed_size",
        ".wavefront_size",
        ".max_flat_workgroup_size",
        ".sgpr_count",
        ".vgpr_count",
        ".agpr_count",
        ".sgpr_spill_count",
        ".vgpr_spill_count",
    ]
    .map(Slot::new);
    for _ in 0..reader.map()? {
        let key = reader.string()?;
        match key {
            ".name" => name.put(within, reader.string()?)?,
            ".symbol" => symbol.put(within, reader.string()?)?,
            ".uses_dynamic_stack" => dynamic_stack.put(within, reader.bool()?)?,
            ".args" => {
                let mut list = Vec::new();
                for number in 0..reader.list()? {
                    list.push(arg(reader, within, number)?);
                }
                args.put(within, list)?;
            }
            _ => match numbers.iter_mut().find(|slot| slot.key == key) {
                Some(slot) => slot.put(within, reader.u32()?)?,
                None => reader.skip()?,
            },
        }
    }
    let [kernarg_size, kernarg_align, lds, private, wavefront, max_workgroup, sgprs, vgprs, agprs, sgpr_spills, vgpr_spills] = numbers;
    let (name, symbol) = (name.get(within)?, symbol.get(within)?);
    if symbol.strip_suffix(".kd").is_none_or(str::is_empty) || symbol.contains('\0') {
        return Err(CodeObjectError::Value {
            within: within.to_owned(),
            key: ".symbol",
            found: format!("{symbol:?}"),
            expected: "a name that ends in .kd".to_owned(),
        });
    }
    let info = KernelInfo {
        name,
        symbol,
        kernarg_size: kernarg_size.get(within)?,
        kernarg_align: kernarg_align.get(within)?,
        args: args.value.unwrap_or_default(),
        lds_size: lds.get(within)?,
        private_size: private.get(within)?,
        wavefront_size: wavefront.get(within)?,
        max_workgroup_size: max_workgroup.get(within)?,
        sgprs: sgprs.get(within)?,
        vgprs: vgprs.get(within)?,
        agprs: agprs.value.unwrap_or(0),
        // Compilers leave out counts of zero at times.
        sgpr_spills: sgpr_spills.value.unwrap_or(0),
        vgpr_spills: vgpr_spills.value.unwrap_or(0),
        uses_dynamic_stack: dynamic_stack.value.unwrap_or(false),
        code: 0..0,
    };
    check(&info, within)?;
    Ok(info)
}

/// What must hold of a kernel's numbers, whatever the payload says.
fn check(info: &KernelInfo<'_>, within: &str) -> Result<(), CodeObjectError> {
    let fail = |key, found: u32, expected: String| {
        Err(CodeObjectError::Value { within: within.to_owned(), key, found: found.to_string(), expected })
    };
    if !info.kernarg_align.is_power_of_two() || info.kernarg_align > 4096 {
        return fail(".kernarg_segment_align", info.kernarg_align, "a power of two up to 4096".into());
    }
    if !matches!(info.wavefront_size, 32 | 64) {
        return fail(".wavefront_size", info.wavefront_size, "32 or 64".into());
    }
    for arg in &info.args {
        if arg.offset.checked_add(arg.size).is_none_or(|end| end > info.kernarg_size) {
            let expected = format!("an argument of {} bytes within the {} bytes of the kernarg segment", arg.size, info.kernarg_size);
            return fail(".offset", arg.offset, expected);
        }
    }
    Ok(())
}

fn arg<'a>(reader: &mut Reader<'a>, kernel: &str, number: u32) -> Result<KernelArg<'a>, CodeObjectError> {
    let within = format!("argument {number} of {kernel}");
    let (mut offset, mut size, mut kind) = (Slot::new(".offset"), Slot::new(".size"), Slot::new(".value_kind"));
    for _ in 0..reader.map()? {
        match reader.string()? {
            ".offset" => offset.put(&within, reader.u32()?)?,
            ".size" => size.put(&within, reader.u32()?)?,
            ".value_kind" => kind.put(&within, reader.string()?)?,
            _ => reader.skip()?,
        }
    }
    let kind = match kind.get(&within)? {
        "by_value" => ArgKind::ByValue,
        "global_buffer" => ArgKind::GlobalBuffer,
        hidden if hidden.starts_with("hidden_") => ArgKind::Hidden(hidden),
        other => ArgKind::Other(other),
    };
    Ok(KernelArg { offset: offset.get(&within)?, size: size.get(&within)?, kind })
}
