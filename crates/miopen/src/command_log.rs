//! MIOpen's own line for a convolution, for the calls that it never sees: `MIOPEN_ENABLE_LOGGING_CMD`.
//!
//! Calls that go to the private library are logged there.

use crate::config;
use crate::log;
use crate::problem::{Kind, Layout, ProblemKey};
use hipplan_miopen_abi::types::data_type;
use std::fmt;
use std::sync::OnceLock;

/// What is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// A find.
    Find,
    /// A run.
    Run,
    /// An immediate call.
    Immediate,
}

/// Whether the variable asks for the lines; read once.
#[inline]
pub fn is_on() -> bool {
    static ON: OnceLock<bool> = OnceLock::new();
    *ON.get_or_init(|| {
        let value = std::env::var_os("MIOPEN_ENABLE_LOGGING_CMD");
        value.is_some_and(|value| config::switch(value.as_encoded_bytes()) == Some(true))
    })
}

/// Logs a forwarded call, if lines are asked for.
#[inline]
pub fn log(call: Call, key: &ProblemKey) {
    if is_on() {
        let function = if call == Call::Find { "LogCmdFindConvolution" } else { "LogCmdConvolution" };
        log::raw(format_args!("MIOpen(HIP): Command [{function}] ./bin/MIOpenDriver {}", Command { call, key }));
    }
}

/// The driver's arguments in MIOpen's order.
#[derive(Debug, Clone, Copy)]
pub struct Command<'a> {
    /// What is called: an immediate call has `-S`.
    pub call: Call,
    /// The problem.
    pub key: &'a ProblemKey,
}

impl fmt::Display for Command<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = self.key;
        let [x, w, y] = &key.tensors;
        let bias = match key.kind() {
            Kind::ForwardBias => "ConvolutionForwardBias",
            Kind::BackwardBias => "ConvolutionBackwardBias",
            Kind::Plain | Kind::Fused { .. } => "",
        };
        if !bias.is_empty() {
            return write!(f, "{bias} of {:?}", &y.dims[..usize::from(key.spatial) + 2]);
        }
        let word = match key.dtypes[0] {
            data_type::HALF => "convfp16",
            data_type::BFLOAT16 => "convbfp16",
            data_type::INT8 => "convint8",
            _ => "conv",
        };
        let filters = y.dims[1];
        write!(f, "{word} -n {} -c {}", x.dims[0], x.dims[1])?;
        let [p, s, d] = [key.pads, key.strides, key.dilations];
        match key.spatial {
            3 => {
                write!(f, " --in_d {} -H {} -W {} -k {filters}", x.dims[2], x.dims[3], x.dims[4])?;
                write!(f, " --fil_d {} -y {} -x {}", w.dims[2], w.dims[3], w.dims[4])?;
                write!(f, " --pad_d {} -p {} -q {}", p[0], p[1], p[2])?;
                write!(f, " --conv_stride_d {} -u {} -v {}", s[0], s[1], s[2])?;
                write!(f, " --dilation_d {} -l {} -j {} --spatial_dim 3", d[0], d[1], d[2])?;
            }
            2 => {
                write!(f, " -H {} -W {} -k {filters} -y {} -x {}", x.dims[2], x.dims[3], w.dims[2], w.dims[3])?;
                write!(f, " -p {} -q {} -u {} -v {} -l {} -j {}", p[0], p[1], s[0], s[1], d[0], d[1])?;
            }
            // The driver has no such form: the axis is the last of two, as frameworks say it.
            _ => {
                write!(f, " -H 1 -W {} -k {filters} -y 1 -x {}", x.dims[2], w.dims[2])?;
                write!(f, " -p 0 -q {} -u 1 -v {} -l 1 -j {}", p[0], s[0], d[0])?;
            }
        }
        for (flag, layout) in [("--in_layout", x), ("--fil_layout", w), ("--out_layout", y)] {
            let name = name(layout, key.spatial);
            if !name.starts_with("NC") {
                write!(f, " {flag} {name}")?;
            }
        }
        let mode = if key.transpose == 0 { "conv" } else { "trans" };
        write!(f, " -m {mode} -g {} -F {} -t 1", key.groups, key.conv_direction().bit())?;
        if self.call == Call::Immediate { f.write_str(" -S 0") } else { Ok(()) }
    }
}

/// The name of the layout that strides have, or, as MIOpen has it, the default's where they have none.
fn name(layout: &Layout, spatial: u8) -> &'static str {
    let (orders, default): (&[(&str, &[usize])], _) = match spatial {
        3 => (&[("NCDHW", &[0, 1, 2, 3, 4]), ("NDHWC", &[0, 2, 3, 4, 1])], "NCDHW"),
        2 => (&[("NCHW", &[0, 1, 2, 3]), ("NHWC", &[0, 2, 3, 1]), ("CHWN", &[1, 2, 3, 0])], "NCHW"),
        _ => (&[("NCHW", &[0, 1, 2]), ("NHWC", &[0, 2, 1])], "NCHW"),
    };
    let descends = |order: &[usize]| {
        let strides = order.iter().filter(|&&axis| layout.dims[axis] != 1).map(|&axis| layout.strides[axis]);
        strides.is_sorted_by(|outer, inner| outer >= inner)
    };
    orders.iter().find(|(_, order)| descends(order)).map_or(default, |(name, _)| name)
}
