//! Which entry points are forwarded, and what forbids it. The one place that decides by name.

use crate::config::{self, Config};
use crate::entry;
use hipplan_miopen_abi::types::{Enum, data_type};
use std::ffi::c_void;

/// What an entry point belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Family {
    /// Handles, error text, profiling.
    Handle,
    /// Setters and destroyers of descriptors.
    Descriptor,
    /// Forward convolution.
    ConvForward,
    /// Backward data.
    ConvBackwardData,
    /// Backward weights.
    ConvBackwardWeights,
    /// Bias, forward and backward.
    Bias,
    /// Convolution, bias and activation in one call.
    FusedConv,
}

impl Family {
    /// All of them.
    pub const ALL: &[Self] = &[
        Self::Handle,
        Self::Descriptor,
        Self::ConvForward,
        Self::ConvBackwardData,
        Self::ConvBackwardWeights,
        Self::Bias,
        Self::FusedConv,
    ];

    /// As reports and `MIOPEN_DISABLE_HIPDNN_FOR` spell it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Handle => "handle",
            Self::Descriptor => "descriptor",
            Self::ConvForward => "convolution-forward",
            Self::ConvBackwardData => "convolution-backward-data",
            Self::ConvBackwardWeights => "convolution-backward-weights",
            Self::Bias => "bias",
            Self::FusedConv => "convolution-bias-activation",
        }
    }

    /// If calls of the family can be answered from plans; the others are only watched.
    pub const fn is_forwarded(self) -> bool {
        !matches!(self, Self::Handle | Self::Descriptor)
    }

    const fn bit(self) -> u32 {
        1 << self as u32
    }
}

/// What an entry point does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It goes to MIOpen; the shim notes what it needs to know.
    Observe,
    /// It may decide a problem's side, and load.
    Query,
    /// It launches.
    Execute,
}

/// A function that takes the place of a private one.
#[derive(Debug, Clone, Copy)]
pub struct Function(pub *const c_void);

// SAFETY: the address of a function.
unsafe impl Sync for Function {}

/// One entry point of the shim's.
#[derive(Debug)]
pub struct Entry {
    /// The public name.
    pub name: &'static str,
    /// What it belongs to.
    pub family: Family,
    /// What it does.
    pub role: Role,
    /// What is called in its place.
    pub function: Function,
}

macro_rules! entries {
    ($($name:ident, $family:ident, $role:ident, $module:ident;)*) => {
        /// The entry points that the shim replaces while forwarding is on; position in [`ENTRIES`].
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(usize)]
        #[expect(non_camel_case_types, reason = "the names are MIOpen's")]
        pub enum EntryPoint {
            $(
                #[doc = concat!("`", stringify!($name), "`.")]
                $name,
            )*
        }

        /// The forwarding set and what is watched for it.
        pub static ENTRIES: &[Entry] = &[$(
            Entry {
                name: stringify!($name),
                family: Family::$family,
                role: Role::$role,
                function: Function(entry::$module::$name as *const c_void),
            },
        )*];
    };
}

// Name, family, role, and the module of `entry` that has a function of that name: adding an operation is one line.
entries! {
    miopenCreate, Handle, Observe, handle;
    miopenCreateWithStream, Handle, Observe, handle;
    miopenDestroy, Handle, Observe, handle;
    miopenEnableProfiling, Handle, Observe, handle;
    miopenGetKernelTime, Handle, Observe, handle;
    miopenGetErrorString, Handle, Observe, handle;
    miopenGetLastForwardedError, Handle, Observe, handle;
    miopenGetSolverIdConvAlgorithm, Handle, Observe, handle;

    miopenSet4dTensorDescriptor, Descriptor, Observe, descriptor;
    miopenSet4dTensorDescriptorEx, Descriptor, Observe, descriptor;
    miopenSetNdTensorDescriptorWithLayout, Descriptor, Observe, descriptor;
    miopenSetTensorDescriptor, Descriptor, Observe, descriptor;
    miopenSetTensorDescriptorV2, Descriptor, Observe, descriptor;
    miopenSetTensorCastType, Descriptor, Observe, descriptor;
    miopenDestroyTensorDescriptor, Descriptor, Observe, descriptor;
    miopenInitConvolutionDescriptor, Descriptor, Observe, descriptor;
    miopenInitConvolutionNdDescriptor, Descriptor, Observe, descriptor;
    miopenSetTransposeConvOutputPadding, Descriptor, Observe, descriptor;
    miopenSetTransposeConvNdOutputPadding, Descriptor, Observe, descriptor;
    miopenDestroyConvolutionDescriptor, Descriptor, Observe, descriptor;

    miopenConvolutionForwardGetWorkSpaceSize, ConvForward, Query, conv;
    miopenFindConvolutionForwardAlgorithm, ConvForward, Query, conv;
    miopenConvolutionForward, ConvForward, Execute, conv;
    miopenConvolutionForwardGetSolutionCount, ConvForward, Query, conv;
    miopenConvolutionForwardGetSolution, ConvForward, Query, conv;
    miopenConvolutionForwardGetSolutionWorkspaceSize, ConvForward, Query, conv;
    miopenConvolutionForwardCompileSolution, ConvForward, Query, conv;
    miopenConvolutionForwardImmediate, ConvForward, Execute, conv;

    miopenConvolutionBackwardDataGetWorkSpaceSize, ConvBackwardData, Query, conv;
    miopenFindConvolutionBackwardDataAlgorithm, ConvBackwardData, Query, conv;
    miopenConvolutionBackwardData, ConvBackwardData, Execute, conv;
    miopenConvolutionBackwardDataGetSolutionCount, ConvBackwardData, Query, conv;
    miopenConvolutionBackwardDataGetSolution, ConvBackwardData, Query, conv;
    miopenConvolutionBackwardDataGetSolutionWorkspaceSize, ConvBackwardData, Query, conv;
    miopenConvolutionBackwardDataCompileSolution, ConvBackwardData, Query, conv;
    miopenConvolutionBackwardDataImmediate, ConvBackwardData, Execute, conv;

    miopenConvolutionBackwardWeightsGetWorkSpaceSize, ConvBackwardWeights, Query, conv;
    miopenFindConvolutionBackwardWeightsAlgorithm, ConvBackwardWeights, Query, conv;
    miopenConvolutionBackwardWeights, ConvBackwardWeights, Execute, conv;
    miopenConvolutionBackwardWeightsGetSolutionCount, ConvBackwardWeights, Query, conv;
    miopenConvolutionBackwardWeightsGetSolution, ConvBackwardWeights, Query, conv;
    miopenConvolutionBackwardWeightsGetSolutionWorkspaceSize, ConvBackwardWeights, Query, conv;
    miopenConvolutionBackwardWeightsCompileSolution, ConvBackwardWeights, Query, conv;
    miopenConvolutionBackwardWeightsImmediate, ConvBackwardWeights, Execute, conv;

    miopenConvolutionForwardBias, Bias, Execute, bias;
    miopenConvolutionBackwardBias, Bias, Execute, bias;
    miopenConvolutionBiasActivationForward, FusedConv, Execute, fused;
}

impl EntryPoint {
    /// Its line of the table.
    pub fn entry(self) -> &'static Entry {
        &ENTRIES[self as usize]
    }

    /// The public name.
    pub fn name(self) -> &'static str {
        self.entry().name
    }

    /// What it belongs to.
    pub fn family(self) -> Family {
        self.entry().family
    }
}

impl Entry {
    /// If callers bring back the id of a solution. Programs keep ids, and MIOpen crashes on some that are not its own: even where nothing is
    /// forwarded, these functions refuse ours.
    pub fn takes_solution_id(&self) -> bool {
        self.family.is_forwarded()
            && ["GetSolutionWorkspaceSize", "CompileSolution", "Immediate"].iter().any(|end| self.name.ends_with(end))
    }
}

/// Position of a public name in [`ENTRIES`].
pub fn find(name: &[u8]) -> Option<&'static Entry> {
    ENTRIES.iter().find(|entry| entry.name.as_bytes() == name)
}

/// Who answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// The plan store.
    Forwarded,
    /// MIOpen's private library.
    Private,
}

impl Route {
    /// As upstream's wrapper spells it.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Forwarded => "hipdnn",
            Self::Private => "miopen",
        }
    }
}

/// Why an entry point has its route while forwarding is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Reason {
    /// Nothing forwards it.
    NotInForwardingSet,
    /// `MIOPEN_DISABLE_HIPDNN_FOR` names it.
    DisabledByEnv,
    /// A variable steers MIOpen's own convolutions.
    SteeredByEnv,
    /// It is watched and goes to MIOpen.
    Observed,
    /// It is forwarded, each problem as its plans allow.
    InForwardingSet,
}

impl Reason {
    /// All of them.
    pub const ALL: &[Self] = &[Self::NotInForwardingSet, Self::DisabledByEnv, Self::SteeredByEnv, Self::Observed, Self::InForwardingSet];

    /// As upstream's wrapper spells it.
    pub const fn text(self) -> &'static str {
        match self {
            Self::NotInForwardingSet => "not-in-forwarding-set",
            Self::DisabledByEnv => "disabled-by-env",
            Self::SteeredByEnv => "miopen-debug-env",
            Self::Observed => "observed",
            Self::InForwardingSet => "in-forwarding-set",
        }
    }
}

/// Route and reason of a public name while forwarding is on, whatever its arguments.
pub fn decide(name: &[u8], config: &Config) -> (Route, Reason) {
    match find(name) {
        None => (Route::Private, Reason::NotInForwardingSet),
        Some(entry) if !entry.family.is_forwarded() => (Route::Private, Reason::Observed),
        Some(entry) => match excluded(entry.family, config) {
            Some(reason) => (Route::Private, reason),
            None => (Route::Forwarded, Reason::InForwardingSet),
        },
    }
}

/// Why nothing of the family is forwarded, if so.
pub fn excluded(family: Family, config: &Config) -> Option<Reason> {
    if config.denials.family(family) {
        return Some(Reason::DisabledByEnv);
    }
    (config.steered_by.is_some() && family != Family::Bias).then_some(Reason::SteeredByEnv)
}

/// If anything at all is forwarded; if not, nothing need be watched, and only ids of ours are refused.
pub fn forwards_anything(config: &Config) -> bool {
    ENTRIES.iter().any(|entry| decide(entry.name.as_bytes(), config).0 == Route::Forwarded)
}

/// What `MIOPEN_DISABLE_HIPDNN_FOR` forbids: a list with commas between its words.
///
/// | word | what goes to MIOpen |
/// | --- | --- |
/// | `*` | everything |
/// | an entry point's exact name | the whole family of it: what one call finds, another one runs |
/// | `convolution`, `convolution-forward`, `bias`, ... ([`Family::word`]) | that family; `convolution` is all but `bias` |
/// | `fwd`, `bwd`, `wrw` | entry points of that direction |
/// | `fused` | `convolution-bias-activation` |
/// | `f32`, `f16`, `bf16`, `f64`, `i8`, `i32` | problems whose input is of that type |
/// | `key:` and hexadecimal digits | problems whose graph key begins so |
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Denials {
    families: u32,
    types: u32,
    keys: Vec<String>,
}

const CONVOLUTION: u32 =
    Family::ConvForward.bit() | Family::ConvBackwardData.bit() | Family::ConvBackwardWeights.bit() | Family::FusedConv.bit();

/// Words for families, in lower case.
const FAMILY_WORDS: &[(&str, u32)] = &[
    ("*", CONVOLUTION | Family::Bias.bit()),
    ("convolution", CONVOLUTION),
    ("fwd", Family::ConvForward.bit() | Family::FusedConv.bit()),
    ("forward", Family::ConvForward.bit() | Family::FusedConv.bit()),
    ("bwd", Family::ConvBackwardData.bit()),
    ("backward-data", Family::ConvBackwardData.bit()),
    ("wrw", Family::ConvBackwardWeights.bit()),
    ("backward-weights", Family::ConvBackwardWeights.bit()),
    ("fused", Family::FusedConv.bit()),
];

/// Words for data types, in lower case.
const TYPE_WORDS: &[(&str, Enum)] = &[
    ("f32", data_type::FLOAT),
    ("fp32", data_type::FLOAT),
    ("float", data_type::FLOAT),
    ("f16", data_type::HALF),
    ("fp16", data_type::HALF),
    ("half", data_type::HALF),
    ("bf16", data_type::BFLOAT16),
    ("bfloat16", data_type::BFLOAT16),
    ("f64", data_type::DOUBLE),
    ("fp64", data_type::DOUBLE),
    ("double", data_type::DOUBLE),
    ("i8", data_type::INT8),
    ("int8", data_type::INT8),
    ("i32", data_type::INT32),
    ("int32", data_type::INT32),
    ("f8", data_type::FLOAT8_FNUZ),
    ("fp8", data_type::FLOAT8_FNUZ),
    ("bf8", data_type::BFLOAT8_FNUZ),
];

impl Denials {
    /// Reads the list. A word that names nothing is a warning and ignored.
    pub fn parse(list: &str, warnings: &mut Vec<String>) -> Self {
        let mut denials = Self::default();
        for word in list.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            let lower = word.to_ascii_lowercase();
            let family = Family::ALL.iter().find(|family| family.is_forwarded() && family.word() == lower);
            if let Some(entry) = find(word.as_bytes()).filter(|entry| entry.family.is_forwarded()) {
                denials.families |= entry.family.bit();
            } else if let Some(family) = family {
                denials.families |= family.bit();
            } else if let Some((_, bits)) = FAMILY_WORDS.iter().find(|(known, _)| *known == lower) {
                denials.families |= bits;
            } else if let Some((_, value)) = TYPE_WORDS.iter().find(|(known, _)| *known == lower) {
                denials.types |= 1 << value;
            } else if let Some(digits) = lower.strip_prefix("key:")
                && (1..=64).contains(&digits.len())
                && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
            {
                denials.keys.push(digits.to_owned());
            } else {
                warnings.push(format!("{}: '{word}' names nothing that is forwarded; ignored", config::DISABLE));
            }
        }
        denials
    }

    /// If the family is denied as a whole.
    pub fn family(&self, family: Family) -> bool {
        self.families & family.bit() != 0
    }

    /// If problems of this `miopenDataType_t` are denied.
    pub fn data_type(&self, data_type: Enum) -> bool {
        u32::try_from(data_type).ok().and_then(|bit| 1_u32.checked_shl(bit)).is_some_and(|bit| self.types & bit != 0)
    }

    /// If the problem with this graph key is denied.
    pub fn key(&self, key: &[u8; 32]) -> bool {
        self.keys.iter().any(|digits| {
            digits.bytes().enumerate().all(|(at, digit)| {
                let byte = key[at / 2];
                let nibble = if at % 2 == 0 { byte >> 4 } else { byte & 15 };
                char::from(digit).to_digit(16) == Some(u32::from(nibble))
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Denials, ENTRIES, EntryPoint, Family, Role, data_type, find};

    fn denials(list: &str) -> (Denials, usize) {
        let mut warnings = Vec::new();
        let denials = Denials::parse(list, &mut warnings);
        (denials, warnings.len())
    }

    #[test]
    fn names_are_there_once() {
        for (at, entry) in ENTRIES.iter().enumerate() {
            assert_eq!(ENTRIES.iter().position(|other| other.name == entry.name), Some(at));
            assert_eq!(entry.role == Role::Observe, !entry.family.is_forwarded(), "{}", entry.name);
        }
        assert_eq!(ENTRIES.iter().filter(|entry| entry.takes_solution_id()).count(), 9);
        assert_eq!(EntryPoint::miopenDestroy.name(), "miopenDestroy");
        assert!(find(b"miopenCreat").is_none());
    }

    #[test]
    fn words_deny_families() {
        for (list, expected) in [
            ("*", 5),
            ("convolution", 4),
            ("Convolution-Forward", 1),
            ("bias", 1),
            ("convolution-bias-activation", 1),
            ("Fused", 1),
            ("fwd", 2),
            ("bwd,wrw", 2),
            ("miopenConvolutionBackwardDataGetSolution", 1),
            ("miopenConvolutionForwardBias", 1),
            (" , ", 0),
        ] {
            let (denials, warnings) = denials(list);
            assert_eq!((Family::ALL.iter().filter(|family| denials.family(**family)).count(), warnings), (expected, 0), "{list}");
        }
        for list in ["handle", "descriptor", "miopenCreate", "MIOPENCONVOLUTIONFORWARD", "key:", "key:xy", "f128"] {
            assert_eq!(denials(list), (Denials::default(), 1), "{list}");
        }
    }

    #[test]
    fn words_deny_types_and_keys() {
        let (denials, warnings) = denials("F16,bfp16,int8,key:A,KEY:0b1c");
        assert_eq!(warnings, 1);
        let denied: Vec<_> = (-2..70).filter(|&value| denials.data_type(value)).collect();
        assert_eq!(denied, [data_type::HALF, data_type::INT8]);
        let key = |first: u8, second: u8| {
            let mut key = [0; 32];
            key[..2].copy_from_slice(&[first, second]);
            denials.key(&key)
        };
        assert!(key(0xa7, 0) && key(0x0b, 0x1c) && !key(0x0b, 0x1d) && !key(0x7a, 0));
        let whole = format!("key:{}", "ab".repeat(32));
        assert!(self::denials(&whole).0.key(&[0xab; 32]) && !self::denials(&whole).0.key(&[0; 32]));
        assert_eq!(self::denials(&format!("{whole}0")).1, 1);
    }
}
