//! What a plan is compiled for (C1).

pub(crate) mod processor;

use processor::Processor;
use std::fmt;
use std::str::FromStr;

/// A target, normalised: equal targets print equally.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// The host's processor. Plans hold no machine code, so one target serves every host.
    Cpu,
    /// An AMD GPU.
    Amd(AmdTarget),
    /// A device that exists for the project's tests only.
    Test(TestTarget),
}

/// Targets of the project's own test runtimes, which answer to HIP's names. No AMD device reports one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TestTarget {
    /// `host`: kernels compiled as C++ for this machine.
    Host,
    /// `sm_NN`: kernels compiled for an NVIDIA GPU of compute capability N.N.
    Sm(u16),
}

/// State of a target feature that a code object may be built for, or that a device reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Feature {
    /// Of a code object: built for either setting. Of a device: not reported, or not there.
    Any,
    /// `+`: built for the feature on.
    On,
    /// `-`: built for the feature off.
    Off,
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Any => "unreported",
            Self::On => "on",
            Self::Off => "off",
        })
    }
}

/// An AMD target id: processor and features in the order that AMD's tools print them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AmdTarget {
    processor: String,
    sramecc: Feature,
    xnack: Feature,
}

impl AmdTarget {
    /// Of a processor and its features.
    ///
    /// # Errors
    /// The name is no processor's, or the processor has no such feature. Names that hipplan does not know are taken as new processors
    /// if they look like one.
    pub fn new(processor: &str, sramecc: Feature, xnack: Feature) -> Result<Self, ParseTargetError> {
        let target = Self { processor: processor.to_owned(), sramecc, xnack };
        match target.fault() {
            None => Ok(target),
            Some(reason) => Err(ParseTargetError { text: Target::Amd(target).to_string(), reason }),
        }
    }

    /// Processor name, such as `gfx942` or `gfx9-4-generic`.
    pub fn processor(&self) -> &str {
        &self.processor
    }

    /// Error-correcting memory.
    pub fn sramecc(&self) -> Feature {
        self.sramecc
    }

    /// Replay of page faults.
    pub fn xnack(&self) -> Feature {
        self.xnack
    }

    /// Names a family of processors, all of which run its code. No device is one.
    pub fn is_generic(&self) -> bool {
        self.processor.ends_with("-generic")
    }

    /// Whether hipplan knows the processor. It takes others for new ones, of which it knows neither features nor family.
    pub fn is_known(&self) -> bool {
        Processor::of_name(&self.processor).is_some()
    }

    /// Name of the generic processor whose code the processor runs.
    pub fn generic(&self) -> Option<&'static str> {
        Processor::of_name(&self.processor)?.generic
    }

    fn fault(&self) -> Option<String> {
        let Some(known) = Processor::of_name(&self.processor) else {
            return (!looks_like_processor(&self.processor)).then(|| match &*self.processor {
                "" => "the processor name is empty".to_owned(),
                name => format!("{name:?} is not a processor name"),
            });
        };
        let states = [("sramecc", self.sramecc, known.sramecc), ("xnack", self.xnack, known.xnack)];
        let (name, ..) = states.iter().find(|(_, state, there)| *state != Feature::Any && !there)?;
        let has: Vec<_> = states.iter().filter(|(.., there)| *there).map(|(name, ..)| *name).collect();
        let has = if has.is_empty() { "no feature that code depends on".to_owned() } else { has.join(" and ") + " only" };
        Some(format!("{} has no {name}: it has {has}", self.processor))
    }
}

/// `gfx`, one or two digits of the major version, one each of minor version and stepping; or `gfx9-4-generic` and the like.
fn looks_like_processor(name: &str) -> bool {
    let Some(rest) = name.strip_prefix("gfx") else { return false };
    if let Some(family) = rest.strip_suffix("-generic") {
        return family.split('-').all(|part| (1..=3).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit()));
    }
    match rest.as_bytes() {
        [major @ .., minor, stepping] => {
            (1..=2).contains(&major.len())
                && major.iter().all(u8::is_ascii_digit)
                && [minor, stepping].iter().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
        }
        _ => false,
    }
}

/// Why code of one target does not run on a device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LoadRefusal {
    /// Code for a processor of another kind.
    #[error("code for {code} does not run on a {device} device: compile for {device}")]
    Kind {
        /// Target of the code.
        code: Target,
        /// Target of the device.
        device: Target,
    },
    /// Code for another processor.
    #[error("code for {code} does not run on {device}: compile for {device}{}", .generic.map(|g| format!(" or {g}")).unwrap_or_default())]
    Processor {
        /// Processor of the code.
        code: String,
        /// Processor of the device.
        device: String,
        /// The generic processor whose code the device runs.
        generic: Option<&'static str>,
    },
    /// Code for a family that the processor is none of.
    #[error("code for {code} runs on {members}, and not on {device}")]
    Family {
        /// Generic processor of the code.
        code: String,
        /// Its members.
        members: String,
        /// Processor of the device.
        device: String,
    },
    /// Code for the other state of a feature.
    #[error(
        "the code is built for {feature} {code}, and {feature} of the device is {device}: compile for {feature} {device}, or for either"
    )]
    Feature {
        /// Name of the feature.
        feature: &'static str,
        /// State that the code is built for.
        code: Feature,
        /// State that the device reports.
        device: Feature,
    },
    /// Code for one state of a feature, and a device that does not say which state it is in.
    #[error("the code is built for {feature} {code}, and the device does not report its {feature}: compile for either state")]
    Unreported {
        /// Name of the feature.
        feature: &'static str,
        /// State that the code is built for.
        code: Feature,
    },
    /// What should be a device names a family of them.
    #[error("{0} is a family of processors, not a device")]
    NoDevice(String),
}

impl Target {
    /// The targets that plans are looked up by for a device, best first, at most four: exactly what the device reports, the processor
    /// without features, then the same of the generic processor. Of a device that reports no feature the list is shorter.
    ///
    /// Not every target whose code the device runs is among them: one that states one of two features
    /// [loads](Self::loads_on), and must be asked for by name.
    ///
    /// `self` is what the device reports.
    pub fn candidates(&self) -> Vec<Self> {
        let mut list = vec![self.clone()];
        if let Self::Amd(device) = self {
            let mut add = |processor: &str, sramecc, xnack| {
                let target = Self::Amd(AmdTarget { processor: processor.to_owned(), sramecc, xnack });
                if !list.contains(&target) {
                    list.push(target);
                }
            };
            add(&device.processor, Feature::Any, Feature::Any);
            if let Some(generic) = device.generic().and_then(Processor::of_name) {
                let sramecc = if generic.sramecc { device.sramecc } else { Feature::Any };
                let xnack = if generic.xnack { device.xnack } else { Feature::Any };
                add(generic.name, sramecc, xnack);
                add(generic.name, Feature::Any, Feature::Any);
            }
        }
        list
    }

    /// Every target that hipplan knows, in one order: the CPU, then each processor of the table without features, and then with each
    /// state of those that it has. Targets of new processors, and those of the project's tests, are not among them.
    pub fn known() -> impl Iterator<Item = Self> {
        const STATES: [Feature; 3] = [Feature::Any, Feature::On, Feature::Off];
        let states = |there: bool| STATES.into_iter().take(if there { STATES.len() } else { 1 });
        let targets = processor::PROCESSORS.iter().flat_map(move |known| {
            let features = states(known.sramecc).flat_map(move |sramecc| states(known.xnack).map(move |xnack| (sramecc, xnack)));
            features.map(move |(sramecc, xnack)| Self::Amd(AmdTarget { processor: known.name.to_owned(), sramecc, xnack }))
        });
        std::iter::once(Self::Cpu).chain(targets)
    }

    /// Whether code for this target runs on a device.
    ///
    /// # Errors
    /// Why it does not.
    pub fn loads_on(&self, device: &Self) -> Result<(), LoadRefusal> {
        let (code, gpu) = match (self, device) {
            (Self::Amd(code), Self::Amd(device)) => (code, device),
            _ if self == device => return Ok(()),
            _ => return Err(LoadRefusal::Kind { code: self.clone(), device: device.clone() }),
        };
        if gpu.is_generic() {
            return Err(LoadRefusal::NoDevice(gpu.processor.clone()));
        }
        if code.processor != gpu.processor && gpu.generic() != Some(&code.processor) {
            let (name, device) = (code.processor.clone(), gpu.processor.clone());
            let members: Vec<_> = Processor::members(&name).collect();
            return Err(if members.is_empty() {
                LoadRefusal::Processor { code: name, device, generic: gpu.generic() }
            } else {
                LoadRefusal::Family { code: name, members: members.join(", "), device }
            });
        }
        for (feature, code, device) in [("sramecc", code.sramecc, gpu.sramecc), ("xnack", code.xnack, gpu.xnack)] {
            match (code, device) {
                (Feature::Any, _) => {}
                (_, Feature::Any) => return Err(LoadRefusal::Unreported { feature, code }),
                _ if code == device => {}
                _ => return Err(LoadRefusal::Feature { feature, code, device }),
            }
        }
        Ok(())
    }
}

/// A text that names no target.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("target {text:?}: {reason}; expected `cpu`, or an AMD target id such as `gfx942` or `gfx942:sramecc+:xnack-`")]
pub struct ParseTargetError {
    /// What was given.
    pub text: String,
    /// What is wrong with it.
    pub reason: String,
}

/// What may stand before a target id: the kinds of offload bundles, and the triple with and without environment.
const KINDS: [&str; 2] = ["hipv4-", "hip-"];
const TRIPLES: [&str; 3] = ["amdgcn-amd-amdhsa--", "amdgcn-amd-amdhsa-unknown-", "amdgcn-amd-amdhsa-"];

/// A text before which one of the prefixes stood, or the text.
fn without<'a>(text: &'a str, prefixes: &[&str]) -> &'a str {
    prefixes.iter().find_map(|prefix| text.strip_prefix(prefix)).unwrap_or(text)
}

/// `cpu`; AMD target ids in every spelling: `gfx90a:sramecc+:xnack-`, with the triple before it, the features in any order or under their
/// old name (`sram-ecc`), or as before code object version 4 (`gfx906+xnack`); `host` and `sm_90` of the project's tests.
impl FromStr for Target {
    type Err = ParseTargetError;

    fn from_str(text: &str) -> Result<Self, ParseTargetError> {
        let fail = |reason: String| ParseTargetError { text: text.to_owned(), reason };
        match text {
            "" => return Err(fail("the text is empty".to_owned())),
            "cpu" => return Ok(Self::Cpu),
            "host" => return Ok(Self::Test(TestTarget::Host)),
            _ => {}
        }
        if let Some(number) = text.strip_prefix("sm_") {
            let digits = (2..=3).contains(&number.len()) && number.bytes().all(|b| b.is_ascii_digit()) && !number.starts_with('0');
            return match number.parse() {
                Ok(number) if digits => Ok(Self::Test(TestTarget::Sm(number))),
                _ => Err(fail(format!("{number:?} is not a compute capability of two or three digits"))),
            };
        }
        let id = without(text, &KINDS);
        let triple = without(id, &TRIPLES);
        if id != text && triple == id {
            return Err(fail(format!("expected {} behind the kind of an offload bundle", TRIPLES[0])));
        }
        let (first, fields) = triple.split_once(':').map_or((triple, None), |(first, rest)| (first, Some(rest)));
        let mut old = first.split('+');
        let processor = old.next().unwrap_or_default();
        let (mut sramecc, mut xnack) = (Feature::Any, Feature::Any);
        let old = old.map(|name| Ok((name, Feature::On)));
        let new =
            fields.into_iter().flat_map(|rest| rest.split(':')).map(|field| match (field.strip_suffix('+'), field.strip_suffix('-')) {
                _ if field.is_empty() => Err(fail("a feature is empty: expected sramecc or xnack, and + or -".to_owned())),
                (Some(name), _) => Ok((name, Feature::On)),
                (_, Some(name)) => Ok((name, Feature::Off)),
                _ => Err(fail(format!("feature {field:?} ends in neither + nor -"))),
            });
        for field in old.chain(new) {
            let (name, state) = field?;
            let slot = match name {
                "sramecc" | "sram-ecc" => &mut sramecc,
                "xnack" => &mut xnack,
                "" => return Err(fail("a feature is empty: expected sramecc or xnack".to_owned())),
                _ => return Err(fail(format!("feature {name:?} is unknown: expected sramecc or xnack"))),
            };
            if *slot != Feature::Any {
                return Err(fail(format!("feature {name:?} is stated twice")));
            }
            *slot = state;
        }
        AmdTarget::new(processor, sramecc, xnack).map(Self::Amd).map_err(|e| fail(e.reason))
    }
}

impl fmt::Display for AmdTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.processor)?;
        for (name, state) in [("sramecc", self.sramecc), ("xnack", self.xnack)] {
            match state {
                Feature::Any => {}
                Feature::On => write!(f, ":{name}+")?,
                Feature::Off => write!(f, ":{name}-")?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
            Self::Amd(target) => target.fmt(f),
            Self::Test(TestTarget::Host) => f.write_str("host"),
            Self::Test(TestTarget::Sm(number)) => write!(f, "sm_{number}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_normalise() {
        for (text, normal) in [
            ("cpu", "cpu"),
            ("host", "host"),
            ("sm_90", "sm_90"),
            ("gfx942", "gfx942"),
            ("gfx942:sramecc+:xnack-", "gfx942:sramecc+:xnack-"),
            ("gfx942:xnack-:sramecc+", "gfx942:sramecc+:xnack-"),
            ("gfx90a", "gfx90a"),
            ("gfx9-4-generic", "gfx9-4-generic"),
            ("gfx9-4-generic:xnack+", "gfx9-4-generic:xnack+"),
            ("gfx906:sram-ecc+", "gfx906:sramecc+"),
            ("gfx906+xnack", "gfx906:xnack+"),
            ("gfx906+sram-ecc+xnack", "gfx906:sramecc+:xnack+"),
            ("gfx908:xnack-", "gfx908:xnack-"),
            ("amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-", "gfx90a:sramecc+:xnack-"),
            ("hipv4-amdgcn-amd-amdhsa--gfx1100", "gfx1100"),
            ("hip-amdgcn-amd-amdhsa-gfx906", "gfx906"),
            ("hip-amdgcn-amd-amdhsa-unknown-gfx906", "gfx906"),
            // Processors to come.
            ("gfx1310", "gfx1310"),
            ("gfx13-2-generic", "gfx13-2-generic"),
            ("gfx1310:xnack+", "gfx1310:xnack+"),
        ] {
            let target = text.parse::<Target>().unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(target.to_string(), normal);
            assert_eq!(normal.parse::<Target>(), Ok(target));
        }
    }

    #[test]
    fn known_targets_are_valid_and_different() {
        let known: Vec<Target> = Target::known().collect();
        for target in &known {
            assert_eq!(target.to_string().parse::<Target>().as_ref(), Ok(target));
        }
        let different: std::collections::HashSet<&Target> = known.iter().collect();
        assert_eq!(different.len(), known.len());
        for text in ["cpu", "gfx942", "gfx942:sramecc+:xnack-", "gfx90a:xnack+", "gfx9-4-generic:sramecc-", "gfx1100"] {
            assert!(known.contains(&text.parse().expect("a target")), "{text}");
        }
        // What a device of a known processor is looked up by is known, whatever it reports.
        assert!(known.iter().flat_map(Target::candidates).all(|candidate| different.contains(&candidate)));
    }

    #[test]
    fn what_is_no_target_is_refused() {
        for (text, reason) in [
            ("", "the text is empty"),
            ("CPU", "\"CPU\" is not a processor name"),
            ("gfx", "\"gfx\" is not a processor name"),
            ("gfxabc", "is not a processor name"),
            ("gfx42", "is not a processor name"),
            ("gfx942 ", "is not a processor name"),
            ("gfx942\0", "is not a processor name"),
            ("gfx-generic", "is not a processor name"),
            ("GFX942", "is not a processor name"),
            ("sm_", "is not a compute capability"),
            ("sm_9", "is not a compute capability"),
            ("sm_+90", "is not a compute capability"),
            ("sm_090", "is not a compute capability"),
            ("host:xnack+", "\"host\" is not a processor name"),
            (":xnack+", "the processor name is empty"),
            ("amdgcn-amd-amdhsa--", "the processor name is empty"),
            ("hip-gfx906", "behind the kind of an offload bundle"),
            ("gfx942:", "a feature is empty: expected sramecc or xnack, and + or -"),
            ("gfx942::xnack+", "a feature is empty"),
            ("gfx942:+", "a feature is empty"),
            ("gfx906+", "a feature is empty"),
            ("gfx942:xnack", "feature \"xnack\" ends in neither + nor -"),
            ("gfx942:foo+", "feature \"foo\" is unknown: expected sramecc or xnack"),
            ("gfx942:tgsplit+", "feature \"tgsplit\" is unknown"),
            ("gfx942:xnack+:xnack-", "feature \"xnack\" is stated twice"),
            ("gfx906+xnack:xnack+", "feature \"xnack\" is stated twice"),
            ("gfx942:é+", "feature \"é\" is unknown"),
            ("gfx1030:xnack+", "gfx1030 has no xnack: it has no feature that code depends on"),
            ("gfx900:sramecc+", "gfx900 has no sramecc: it has xnack only"),
            ("gfx9-generic:sramecc-", "gfx9-generic has no sramecc: it has xnack only"),
            ("gfx1100+xnack", "gfx1100 has no xnack"),
        ] {
            let error = text.parse::<Target>().expect_err(text);
            assert!(error.reason.contains(reason), "{text}: {error}");
            assert_eq!(error.text, text);
        }
    }

    fn target(text: &str) -> Target {
        text.parse().unwrap_or_else(|e| panic!("{e}"))
    }

    #[test]
    fn candidates_of_devices() {
        for (device, candidates) in [
            ("cpu", "cpu"),
            ("host", "host"),
            ("sm_90", "sm_90"),
            ("gfx942:sramecc+:xnack-", "gfx942:sramecc+:xnack- gfx942 gfx9-4-generic:sramecc+:xnack- gfx9-4-generic"),
            ("gfx942", "gfx942 gfx9-4-generic"),
            ("gfx90a:sramecc+:xnack-", "gfx90a:sramecc+:xnack- gfx90a"),
            ("gfx906:sramecc-:xnack+", "gfx906:sramecc-:xnack+ gfx906 gfx9-generic:xnack+ gfx9-generic"),
            ("gfx1010:xnack-", "gfx1010:xnack- gfx1010 gfx10-1-generic:xnack- gfx10-1-generic"),
            ("gfx1030", "gfx1030 gfx10-3-generic"),
            ("gfx1201", "gfx1201 gfx12-generic"),
            ("gfx1310:xnack-", "gfx1310:xnack- gfx1310"),
        ] {
            let device = target(device);
            let found = device.candidates();
            assert_eq!(found.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "), candidates);
            assert!(found.len() <= 4);
            // A device runs what it is said to run.
            for candidate in found {
                assert_eq!(candidate.loads_on(&device), Ok(()), "{candidate} on {device}");
            }
        }
    }

    #[test]
    fn what_loads_where() {
        // Code, device, and why not.
        for (code, device, reason) in [
            ("cpu", "cpu", ""),
            ("cpu", "gfx942", "code for cpu does not run on a gfx942 device: compile for gfx942"),
            ("gfx942", "cpu", "code for gfx942 does not run on a cpu device"),
            ("gfx942", "host", "does not run on a host device"),
            ("sm_90", "sm_90", ""),
            ("sm_80", "sm_90", "does not run on a sm_90 device"),
            // The processor.
            ("gfx942", "gfx942:sramecc+:xnack-", ""),
            ("gfx942", "gfx90a:sramecc+:xnack-", "code for gfx942 does not run on gfx90a: compile for gfx90a"),
            ("gfx1100", "gfx1101", "code for gfx1100 does not run on gfx1101: compile for gfx1101 or gfx11-generic"),
            ("gfx1310", "gfx1310", ""),
            ("gfx1310", "gfx1311", "compile for gfx1311"),
            // Families.
            ("gfx9-generic", "gfx906:sramecc+:xnack-", ""),
            ("gfx9-generic", "gfx90c:xnack-", ""),
            ("gfx9-generic", "gfx908:sramecc+:xnack-", "runs on gfx900, gfx902, gfx904, gfx906, gfx909, gfx90c, and not on gfx908"),
            ("gfx9-generic", "gfx90a:sramecc+:xnack-", "and not on gfx90a"),
            ("gfx9-4-generic", "gfx942:sramecc+:xnack-", ""),
            ("gfx9-4-generic", "gfx950:sramecc+:xnack-", ""),
            ("gfx10-1-generic", "gfx1013:xnack-", ""),
            ("gfx10-1-generic", "gfx1030", "runs on gfx1010, gfx1011, gfx1012, gfx1013, and not on gfx1030"),
            ("gfx10-3-generic", "gfx1036", ""),
            ("gfx11-generic", "gfx1151", ""),
            ("gfx12-generic", "gfx1201", ""),
            ("gfx12-generic", "gfx1250:xnack-", "and not on gfx1250"),
            ("gfx13-generic", "gfx1310", "does not run on gfx1310"),
            ("gfx11-generic", "gfx11-generic", "gfx11-generic is a family of processors, not a device"),
            // Features: a state that the code needs must be reported.
            ("gfx90a:sramecc+", "gfx90a:sramecc+:xnack-", ""),
            ("gfx90a:sramecc+:xnack-", "gfx90a:sramecc+:xnack-", ""),
            ("gfx90a:xnack-", "gfx90a:sramecc+:xnack-", ""),
            (
                "gfx90a:xnack+",
                "gfx90a:sramecc+:xnack-",
                "built for xnack on, and xnack of the device is off: compile for xnack off, or for either",
            ),
            ("gfx90a:sramecc-", "gfx90a:sramecc+:xnack-", "built for sramecc off, and sramecc of the device is on"),
            ("gfx906:sramecc+", "gfx906:xnack-", "built for sramecc on, and the device does not report its sramecc"),
            ("gfx906", "gfx906", ""),
            ("gfx9-generic:xnack+", "gfx906:sramecc+:xnack-", "built for xnack on"),
            ("gfx9-4-generic:sramecc+:xnack-", "gfx942:sramecc+:xnack-", ""),
        ] {
            let found = target(code).loads_on(&target(device)).err().map(|e| e.to_string()).unwrap_or_default();
            assert!(found.contains(reason) && found.is_empty() == reason.is_empty(), "{code} on {device}: {found}");
        }
    }
}
