//! One record: its flags, and the problems that they say.

use super::error::SkipReason;
use super::flags::{self, Axis, BaseArgument, CONVOLUTION, Field, FlagSpec};
use super::layout::Layout;
use super::lines::{self, Record, RecordForm};
use crate::conv_problem::{ConvDirection, ConvProblem, MAX_SPATIAL, ProblemMode, ProblemTensor};
use crate::{DataType, Limits};

/// Where the value of a flag comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The record gives it.
    Given,
    /// The record does not; the driver's default.
    Default,
    /// The record gives it, and it has no effect on the graph.
    Ignored,
    /// The name of an API function in front of the record gives it.
    Prefix,
}

impl Source {
    /// A word for tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Given => "given",
            Self::Default => "default",
            Self::Ignored => "ignored",
            Self::Prefix => "API function",
        }
    }
}

/// How one flag was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlagReading {
    /// Long name.
    pub flag: &'static str,
    /// Short name.
    pub short: char,
    /// Its value as text.
    pub value: String,
    /// Where that comes from.
    pub source: Source,
    /// What it says.
    pub meaning: &'static str,
}

/// How one record was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Where it comes from.
    pub form: RecordForm,
    /// The operation, such as `convfp16`.
    pub operation: String,
    /// The flags, in the order of the driver's table: all that shape the problem, and the others where given.
    pub flags: Vec<FlagReading>,
    /// What was read leniently, or is probably not meant so.
    pub warnings: Vec<String>,
    /// One problem per direction.
    pub problems: Vec<ConvProblem>,
}

/// Values of the flags of the table, by position in it.
struct Values<'a> {
    given: Vec<Option<&'a [u8]>>,
    warnings: Vec<String>,
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Whether an operation of the driver follows the program.
pub(super) fn names_operation(record: &Record<'_>) -> bool {
    lines::arguments(record.args).first().is_some_and(|word| flags::base_argument(word).is_some())
}

/// Reads one record.
///
/// # Errors
/// Why it says no problem.
pub(super) fn read(record: &Record<'_>, limits: &Limits) -> Result<Reading, SkipReason> {
    let words = lines::arguments(record.args);
    let Some((&operation, rest)) = words.split_first() else {
        return Err(SkipReason::NoOperation { found: String::new() });
    };
    let dtype = match flags::base_argument(operation) {
        Some(BaseArgument::Convolution(dtype)) => *dtype,
        Some(BaseArgument::Other) => return Err(SkipReason::OtherOperation { name: text(operation) }),
        Some(BaseArgument::Misspelt(meant)) => return Err(SkipReason::Misspelt { found: text(operation), meant }),
        None => return Err(SkipReason::NoOperation { found: text(operation) }),
    };
    if record.commented {
        return Err(SkipReason::Commented);
    }
    // What MIOpen logs ends with -t 1: a record that stops earlier, with another behind it, was printed over.
    let glued = !record.args.last().is_some_and(|b| b.is_ascii_whitespace());
    let may_be_cut = record.followed && (glued || record.form.is_log());
    let mut values = Values::read(rest).map_err(|error| if may_be_cut { SkipReason::CutOff } else { error })?;
    if may_be_cut && values.get(|f| f.long == "time").is_none() {
        return Err(SkipReason::CutOff);
    }
    let mut reading =
        Reading { form: record.form, operation: text(operation), flags: Vec::new(), warnings: Vec::new(), problems: Vec::new() };
    let spatial = values.spatial()?;
    let directions = values.directions(record.direction)?;
    let forward = values.problem(spatial, dtype)?;
    for direction in directions {
        let problem = ConvProblem { direction, ..forward };
        problem.to_graph(limits)?;
        reading.problems.push(problem);
    }
    values.remarks(&forward);
    reading.flags = values.readings(&forward, record.direction);
    reading.warnings = values.warnings;
    Ok(reading)
}

impl<'a> Values<'a> {
    /// Flag by flag, each with one value; the last of a flag counts.
    fn read(words: &[&'a [u8]]) -> Result<Self, SkipReason> {
        let mut values = Self { given: vec![None; CONVOLUTION.len()], warnings: Vec::new() };
        let mut words = words.iter().copied().peekable();
        let mut seen = 0_usize;
        while let Some(word) = words.next() {
            let (spec, inline) = match word {
                [b'-', b'-', long @ ..] => values.long(word, long)?,
                [b'-', b'\\', short, rest @ ..] | [b'-', short, rest @ ..] => values.short(word, *short, rest)?,
                _ => match values.bare(word, words.peek().copied(), seen)? {
                    Some(spec) => (spec, None),
                    None => continue,
                },
            };
            seen = seen.saturating_add(1);
            if spec.field == Field::Help {
                return Err(SkipReason::Help);
            }
            let Some(value) = inline.or_else(|| words.next()) else {
                if spec.field == Field::Run {
                    values.warnings.push(format!("--{} has no value", spec.long));
                    break;
                }
                return Err(SkipReason::NoValue { flag: spec.long });
            };
            let slot = CONVOLUTION.iter().zip(values.given.iter_mut()).find(|(f, _)| std::ptr::eq(*f, spec));
            if let Some((_, slot)) = slot {
                if slot.is_some_and(|before| before != value) {
                    values.warnings.push(format!("--{} is given twice; the last, {:?}, counts", spec.long, text(value)));
                }
                *slot = Some(value);
            }
        }
        Ok(values)
    }

    fn long(&mut self, word: &'a [u8], long: &'a [u8]) -> Result<(&'static FlagSpec, Option<&'a [u8]>), SkipReason> {
        if let Some(spec) = flags::by_long(long) {
            return Ok((spec, None));
        }
        // The driver has no such form, but what is meant is plain.
        if let Some(at) = long.iter().position(|&b| b == b'=')
            && let Some((name, [_, value @ ..])) = long.split_at_checked(at)
            && let Some(spec) = flags::by_long(name)
        {
            self.warnings.push(format!("{:?}: the driver wants a space in place of =", text(word)));
            return Ok((spec, Some(value)));
        }
        Err(SkipReason::UnknownFlag { word: text(word) })
    }

    fn short(&mut self, word: &'a [u8], short: u8, rest: &[u8]) -> Result<(&'static FlagSpec, Option<&'a [u8]>), SkipReason> {
        if short.is_ascii_digit() {
            return Err(SkipReason::StrayValue { word: text(word) });
        }
        let Some(spec) = flags::by_short(short) else {
            return Err(SkipReason::UnknownFlag { word: text(word) });
        };
        if !rest.is_empty() {
            let short = char::from(short);
            self.warnings.push(format!("{:?} is read as -{short}, as the driver reads it: only the first letter counts", text(word)));
        }
        Ok((spec, None))
    }

    /// A word without a dash where a flag should stand.
    fn bare(&mut self, word: &[u8], next: Option<&[u8]>, seen: usize) -> Result<Option<&'static FlagSpec>, SkipReason> {
        let has_value = next.is_some_and(|n| !n.starts_with(b"-") || n.get(1).is_some_and(u8::is_ascii_digit));
        let spec = match word {
            [short] if short.is_ascii_alphabetic() => flags::by_short(*short),
            _ => flags::by_long(word),
        };
        if let Some(spec) = spec.filter(|s| has_value && s.field != Field::Help && seen > 0) {
            self.warnings.push(format!("{:?} is taken for a flag without its dash", text(word)));
            return Ok(Some(spec));
        }
        if word.first().is_some_and(u8::is_ascii_digit) {
            return Err(SkipReason::StrayValue { word: text(word) });
        }
        let is_variable = word.contains(&b'$');
        if seen == 0 && !is_variable {
            // A sentence about the driver.
            return Err(SkipReason::NoOperation { found: text(word) });
        }
        let what = if is_variable { "is a variable that may hold more flags" } else { "is no flag" };
        self.warnings.push(format!("{:?} {what}; passed over", text(word)));
        Ok(None)
    }

    fn entry(&self, want: impl Fn(&FlagSpec) -> bool) -> Option<(&'static FlagSpec, Option<&'a [u8]>)> {
        CONVOLUTION.iter().zip(&self.given).find(|(f, _)| want(f)).map(|(f, given)| (f, *given))
    }

    fn get(&self, want: impl Fn(&FlagSpec) -> bool) -> Option<&'a [u8]> {
        self.entry(want).and_then(|(_, given)| given)
    }

    /// The value of a flag that is text.
    fn word(&self, field: Field) -> &'a [u8] {
        self.entry(|f| f.field == field).map_or(b"", |(spec, given)| given.unwrap_or(spec.default.as_bytes()))
    }

    /// The value of a flag that is a number.
    fn number(&mut self, field: Field) -> Result<i64, SkipReason> {
        let Some((spec, given)) = self.entry(|f| f.field == field) else { return Ok(0) };
        let value = given.unwrap_or(spec.default.as_bytes());
        if value.contains(&b'$') {
            return Err(SkipReason::Variable { flag: spec.long, value: text(value) });
        }
        let (number, rest) = integer(value).ok_or_else(|| SkipReason::NotANumber { flag: spec.long, value: text(value) })?;
        if !rest.is_empty() {
            self.warnings.push(format!("--{} is {:?}, read as {number}, as the driver reads it", spec.long, text(value)));
        }
        // The driver's numbers have 32 bits.
        if i32::try_from(number).is_err() {
            return Err(SkipReason::OutOfRange { flag: spec.long, value: number, expected: "a number of 32 bits" });
        }
        Ok(number)
    }

    fn at_least(&mut self, field: Field, least: i64) -> Result<i64, SkipReason> {
        let value = self.number(field)?;
        if value >= least {
            return Ok(value);
        }
        let flag = self.entry(|f| f.field == field).map_or("", |(spec, _)| spec.long);
        Err(SkipReason::OutOfRange { flag, value, expected: if least == 0 { "at least 0" } else { "at least 1" } })
    }

    fn spatial(&mut self) -> Result<u8, SkipReason> {
        match self.number(Field::SpatialDim)? {
            2 => Ok(2),
            3 => Ok(3),
            value => Err(SkipReason::OutOfRange { flag: "spatial_dim", value, expected: "2 or 3" }),
        }
    }

    fn directions(&mut self, prefix: Option<ConvDirection>) -> Result<Vec<ConvDirection>, SkipReason> {
        let given = self.word(Field::Directions);
        if given.contains(&b'$') {
            self.warnings.push(format!("--forw is the variable {:?}; all directions are taken", text(given)));
            self.forget(Field::Directions);
        }
        let is_given = self.get(|f| f.field == Field::Directions).is_some();
        let value = self.number(Field::Directions)?;
        if let Some(prefix) = prefix {
            if !is_given {
                return Ok(vec![prefix]);
            }
            if value != prefix.bit() {
                self.warnings.push(format!("--forw {value} counts, though the API function in front is {prefix}"));
            }
        }
        let all: Vec<_> = ConvDirection::ALL.into_iter().filter(|d| value == 0 || value & d.bit() != 0).collect();
        if all.is_empty() { Err(SkipReason::Direction { value }) } else { Ok(all) }
    }

    fn forget(&mut self, field: Field) {
        for (_, given) in CONVOLUTION.iter().zip(self.given.iter_mut()).filter(|(f, _)| f.field == field) {
            *given = None;
        }
    }

    /// The problem of the forward direction.
    fn problem(&mut self, spatial: u8, dtype: DataType) -> Result<ConvProblem, SkipReason> {
        let axes = Axis::all(spatial);
        let mode = match self.word(Field::Mode) {
            b"conv" => ProblemMode::Convolution,
            b"trans" => ProblemMode::Transpose,
            other if other.contains(&b'$') => return Err(SkipReason::Variable { flag: "mode", value: text(other) }),
            other => return Err(SkipReason::Mode { value: text(other) }),
        };
        let batch = self.at_least(Field::Batch, 1)?;
        let channels = self.at_least(Field::Channels, 1)?;
        let filters = self.at_least(Field::Filters, 1)?;
        let groups = self.number(Field::Groups)?.max(1);
        if channels.checked_rem(groups) != Some(0) || filters.checked_rem(groups) != Some(0) {
            return Err(SkipReason::Groups { groups, channels, filters });
        }
        let per_group = |n: i64| n.checked_div(groups).unwrap_or(n);
        let mut x = vec![batch, channels];
        let mut y = vec![batch, filters];
        let mut w = match mode {
            ProblemMode::Convolution => vec![filters, per_group(channels)],
            ProblemMode::Transpose => vec![channels, per_group(filters)],
        };
        let mut lists = [[0; MAX_SPATIAL]; 4];
        for (d, &axis) in axes.iter().enumerate() {
            let numbers = [
                self.at_least(Field::Pad(axis), 0)?,
                self.at_least(Field::Stride(axis), 1)?,
                self.at_least(Field::Dilation(axis), 1)?,
                if mode == ProblemMode::Transpose { self.at_least(Field::OutputPad(axis), 0)? } else { 0 },
            ];
            for (list, number) in lists.iter_mut().zip(numbers) {
                if let Some(slot) = list.get_mut(d) {
                    *slot = number;
                }
            }
            x.push(self.at_least(Field::In(axis), 1)?);
            w.push(self.at_least(Field::Tap(axis), 1)?);
        }
        let [mut pads, strides, dilations, output_pads] = lists;
        let sizes = x.get(2..).unwrap_or_default();
        let taps = w.get(2..).unwrap_or_default();
        if mode == ProblemMode::Convolution {
            self.pad_mode(&mut pads, sizes, taps, &strides, &dilations);
        }
        for (d, (&size, &tap)) in sizes.iter().zip(taps).enumerate() {
            let at = |list: &[i64; MAX_SPATIAL]| list.get(d).copied().unwrap_or(0);
            let axis = axes.get(d).map_or("size", |a| name(*a));
            y.push(output(mode, axis, size, tap, at(&pads), at(&strides), at(&dilations), at(&output_pads))?);
        }
        self.casts(dtype)?;
        let [x, w, y] = self.tensors(dtype, [&x, &w, &y])?;
        Ok(ConvProblem { direction: ConvDirection::Forward, mode, spatial, x, w, y, groups, pads, strides, dilations, output_pads })
    }

    /// What the driver makes of the pad mode: it changes the paddings, and only if no tap is apart from its neighbour.
    fn pad_mode(&mut self, pads: &mut [i64; MAX_SPATIAL], sizes: &[i64], taps: &[i64], strides: &[i64], dilations: &[i64]) {
        let mode = self.word(Field::PadMode);
        if !matches!(mode, b"same" | b"valid") {
            if mode != b"default" {
                self.warnings.push(format!("--pad_mode {:?} is none of same, valid and default; read as default", text(mode)));
            }
            return;
        }
        let dense = dilations.iter().take(taps.len()).all(|&d| d == 1) || taps.iter().all(|&t| t == 1);
        if !dense {
            self.warnings.push(format!("--pad_mode {} has no effect with dilations, as in the driver", text(mode)));
            return;
        }
        for (((pad, &size), &tap), &stride) in pads.iter_mut().zip(sizes).zip(taps).zip(strides) {
            let given = *pad;
            let rest = size.checked_rem(stride).unwrap_or(0);
            let wanted = tap.saturating_sub(if rest == 0 { stride } else { rest }).max(0).checked_div(2).unwrap_or(0);
            *pad = if mode == b"same" { wanted } else { 0 };
            if given != 0 && given != *pad {
                self.warnings.push(format!("--pad_mode {} makes a padding {} of the {given} given", text(mode), *pad));
            }
        }
    }

    /// A cast makes the library compute in a type that the tensors do not have; no graph says so.
    fn casts(&self, dtype: DataType) -> Result<(), SkipReason> {
        for field in [Field::InCast, Field::FilterCast, Field::OutCast] {
            let Some((spec, Some(value))) = self.entry(|f| f.field == field) else { continue };
            let fail = |reason| Err(SkipReason::Cast { flag: spec.long, value: text(value), reason });
            let cast = match value {
                b"-1" => continue,
                b"fp32" => DataType::Float,
                b"fp16" => DataType::Half,
                b"bf16" => DataType::BFloat16,
                b"fp8" => DataType::Fp8E4M3Fnuz,
                b"bf8" => DataType::Fp8E5M2Fnuz,
                b"int32" => return fail("the driver refuses int32"),
                _ => return fail("expected fp32, fp16, bf16, fp8 or bf8"),
            };
            if cast != dtype {
                return fail("a graph cannot say that a tensor is computed with in another type than it has");
            }
        }
        Ok(())
    }

    fn tensors(&mut self, dtype: DataType, dims: [&[i64]; 3]) -> Result<[ProblemTensor; 3], SkipReason> {
        let (vect, length) = (self.number(Field::Vectorised)?, self.number(Field::VectorLength)?);
        let vector = match (vect, length) {
            (0, 1) => None,
            (1, 4 | 8) => Some(length),
            _ => return Err(SkipReason::Vectorisation { vect, length }),
        };
        let [x, w, y] = dims;
        let mut tensor = |field, name, dims: &[i64]| {
            let (flag, given) = self.entry(|f| f.field == field).map_or(("", None), |(spec, given)| (spec.long, given));
            let default: &[u8] = if dims.len() == 5 { b"NCDHW" } else { b"NCHW" };
            let layout = given.unwrap_or(default);
            if layout.contains(&b'$') {
                return Err(SkipReason::Variable { flag, value: text(layout) });
            }
            let mut layout = Layout::parse(flag, layout, dims.len())?;
            if let Some(vector) = vector {
                layout = layout.with_vector(vector);
            }
            if layout.is_vectorised() {
                self.warnings.push(format!("{name} has vectors of channels; they are neighbours, so the graph has plain strides"));
            }
            let strides = layout.strides(name, dims)?;
            Ok(ProblemTensor::new(dtype, dims, strides.get(..dims.len()).unwrap_or_default())?)
        };
        Ok([tensor(Field::InLayout, "x", x)?, tensor(Field::FilterLayout, "w", w)?, tensor(Field::OutLayout, "y", y)?])
    }

    /// What a person should know of how the flags were read.
    fn remarks(&mut self, problem: &ConvProblem) {
        let file = self.word(Field::GradientFile);
        if !file.is_empty() && file.iter().all(u8::is_ascii_digit) {
            self.warnings.push(format!("-D {} names a file with dy, not a depth; depth is -! or --in_d, with --spatial_dim 3", text(file)));
        }
        if integer(self.word(Field::Bias)).is_some_and(|(bias, _)| bias != 0) {
            self.warnings.push("--bias: the bias is a call of its own and not part of the graph".to_owned());
        }
        let [_, _, x_height, ..] = problem.x.dims;
        let [_, _, w_height, ..] = problem.w.dims;
        if problem.spatial == 2 && (x_height, w_height) == (1, 1) && problem.w.dims.get(3).is_some_and(|&taps| taps > 1) {
            self.warnings.push("height 1: a 1-D convolution, as frameworks pass it; the graph is 2-D, as MIOpen sees it".to_owned());
        }
    }

    /// How every flag was read that shapes the problem, and every other that is given.
    fn readings(&self, problem: &ConvProblem, prefix: Option<ConvDirection>) -> Vec<FlagReading> {
        let mut readings = Vec::new();
        for (spec, given) in CONVOLUTION.iter().zip(&self.given) {
            let depth = matches!(
                spec.field,
                Field::In(Axis::D) | Field::Tap(Axis::D) | Field::Pad(Axis::D) | Field::Stride(Axis::D) | Field::Dilation(Axis::D)
            );
            let has_effect = match spec.field {
                Field::Run | Field::Help | Field::GradientFile | Field::Bias => false,
                Field::OutputPad(axis) => problem.mode == ProblemMode::Transpose && (axis != Axis::D || problem.spatial == 3),
                Field::PadMode => problem.mode == ProblemMode::Convolution,
                _ => !depth || problem.spatial == 3,
            };
            let source = match (given, has_effect) {
                (None, false) => continue,
                (None, true) if spec.field == Field::Directions && prefix.is_some() => Source::Prefix,
                (None, true) => Source::Default,
                (Some(_), true) => Source::Given,
                (Some(_), false) => Source::Ignored,
            };
            let value = match (given, source, prefix) {
                (Some(value), ..) => text(value),
                (None, Source::Prefix, Some(direction)) => direction.bit().to_string(),
                (None, ..) if matches!(spec.field, Field::InLayout | Field::FilterLayout | Field::OutLayout) => {
                    if problem.spatial == 3 { "NCDHW" } else { "NCHW" }.to_owned()
                }
                (None, ..) => spec.default.to_owned(),
            };
            readings.push(FlagReading { flag: spec.long, short: spec.short(), value, source, meaning: spec.meaning });
        }
        readings
    }
}

fn name(axis: Axis) -> &'static str {
    match axis {
        Axis::D => "depth",
        Axis::H => "height",
        Axis::W => "width",
    }
}

/// Size of `y` along one dimension. MIOpen takes 1 where nothing fits; no engine computes that.
#[expect(clippy::too_many_arguments, reason = "they are the numbers of one dimension, named in the formula")]
fn output(
    mode: ProblemMode,
    axis: &'static str,
    size: i64,
    taps: i64,
    pad: i64,
    stride: i64,
    dilation: i64,
    output_pad: i64,
) -> Result<i64, SkipReason> {
    // 128 bits hold any combination of numbers of 32.
    let [size, taps, pad, stride, dilation, output_pad] = [size, taps, pad, stride, dilation, output_pad].map(i128::from);
    let small = |n: i128| i64::try_from(n).unwrap_or(i64::MAX);
    let extent = taps.saturating_sub(1).saturating_mul(dilation).saturating_add(1);
    let pads = pad.saturating_mul(2);
    match mode {
        ProblemMode::Convolution => {
            let room = size.saturating_add(pads);
            match room.checked_sub(extent).filter(|&r| r >= 0).and_then(|r| r.checked_div(stride)) {
                Some(steps) => Ok(small(steps.saturating_add(1))),
                None => Err(SkipReason::FilterTooLarge { axis, extent: small(extent), room: small(room) }),
            }
        }
        ProblemMode::Transpose => {
            let whole = size.saturating_sub(1).saturating_mul(stride).saturating_add(extent);
            let size = whole.saturating_sub(pads).saturating_add(output_pad);
            if size >= 1 { Ok(small(size)) } else { Err(SkipReason::NoOutput { axis, size: small(size) }) }
        }
    }
}

/// The integer at the front of a text, and what is behind it. Saturates.
fn integer(value: &[u8]) -> Option<(i64, &[u8])> {
    let (negative, digits) = match value {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    let count = digits.iter().take_while(|b| b.is_ascii_digit()).count();
    let (digits, rest) = digits.split_at_checked(count)?;
    if digits.is_empty() {
        return None;
    }
    let number = digits.iter().fold(0_i64, |n, &d| n.saturating_mul(10).saturating_add(i64::from(d.saturating_sub(b'0'))));
    Some((if negative { number.saturating_neg() } else { number }, rest))
}

#[cfg(test)]
#[test]
fn no_name_is_taken_twice() {
    for (i, a) in CONVOLUTION.iter().enumerate() {
        for b in CONVOLUTION.iter().skip(i + 1) {
            assert!(a.long != b.long && a.short() != b.short(), "{} and {}", a.long, b.long);
        }
    }
}
