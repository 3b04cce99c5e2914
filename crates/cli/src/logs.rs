//! What there is to tell of a log: coverage, what was skipped, how flags were read.

use crate::inputs::Contents;
use crate::output;
use hipplan::driver::{Coverage, DriverLog, LoggedProblem, LoggedRecord, NOT_IN_LOGS, Source};
use hipplan::{ConvProblem, Limits};
use serde_json::{Value, json};

/// Skipped records that are shown in a table; JSON has all.
const SHOWN: usize = 50;

/// Whether a convolution was lost in any of the logs.
pub(crate) fn any_lost(contents: &[Contents]) -> bool {
    contents.iter().filter_map(|c| c.log.as_ref()).any(|log| log.coverage.lost > 0)
}

/// Coverage and skipped records of every log.
pub(crate) fn to_json(contents: &[Contents]) -> Value {
    let one = |(name, log): (&str, &DriverLog)| {
        let Coverage { lines, records, read, lost, other, unlisted } = log.coverage;
        let skipped: Vec<Value> = log
            .skipped
            .iter()
            .map(
                |s| json!({ "line": s.line, "count": s.count, "reason": s.reason.to_string(), "lost": s.reason.is_loss(), "text": s.text }),
            )
            .collect();
        json!({
            "source": name, "lines": lines, "records": records, "read": read, "lost": lost, "other": other,
            "problems": log.problems.len(), "skipped": skipped, "skipped_unlisted": unlisted,
        })
    };
    contents.iter().filter_map(|c| Some((c.name.as_str(), c.log.as_ref()?))).map(one).collect()
}

/// Prints coverage and skipped records of every log.
pub(crate) fn print(contents: &[Contents]) -> anyhow::Result<()> {
    for (name, log) in contents.iter().filter_map(|c| Some((&c.name, c.log.as_ref()?))) {
        let Coverage { lines, records, read, lost, other, .. } = log.coverage;
        let problems = output::count(log.problems.len(), "different problem");
        output::line(format_args!(
            "{}: {lines} lines, {records} driver records: {read} read as {problems}, {lost} lost, {other} that are no convolutions",
            output::name(name)
        ))?;
        for skipped in log.skipped.iter().take(SHOWN) {
            let style = if skipped.reason.is_loss() { output::WARN } else { output::DIM };
            let times = if skipped.count > 1 { format!(" ({} times)", skipped.count) } else { String::new() };
            let reason = output::name(&skipped.reason.to_string());
            output::line(format_args!(
                "  {style}skipped line {}{times}:{} {}",
                skipped.line,
                output::RESET,
                output::name(&reason.to_string())
            ))?;
            output::line(format_args!("    {}{}{}", output::DIM, output::name(&skipped.text), output::RESET))?;
        }
        let more = log.skipped.len().saturating_sub(SHOWN) as u64 + log.coverage.unlisted;
        if more > 0 {
            output::line(format_args!("  and {more} more; --json lists up to the limit"))?;
        }
    }
    Ok(())
}

/// The problem in MIOpen's terms.
pub(crate) fn problem_json(log: &DriverLog, logged: &LoggedProblem, explain: bool) -> Value {
    let p = &logged.problem;
    let (rank, spatial) = (p.rank(), usize::from(p.spatial));
    let tensor =
        |t: &hipplan::ProblemTensor| json!({ "data_type": t.dtype.name(), "dims": &t.dims[..rank], "strides": &t.strides[..rank] });
    let mut value = json!({
        "line": logged.line,
        "count": logged.count,
        "direction": p.direction.name(),
        "mode": p.mode.name(),
        "x": tensor(&p.x), "w": tensor(&p.w), "y": tensor(&p.y),
        "groups": p.groups,
        "pads": &p.pads[..spatial],
        "strides": &p.strides[..spatial],
        "dilations": &p.dilations[..spatial],
        "output_pads": &p.output_pads[..spatial],
        "macs": p.macs(),
    });
    if let Some(record) = log.records.get(logged.record).filter(|_| explain) {
        // The limits are those that it was read with.
        let reading = record.reading(&Limits::DEFAULT).ok();
        let flags = reading.iter().flat_map(|r| &r.flags);
        let flags: Vec<Value> =
            flags.map(|f| json!({ "flag": f.flag, "short": f.short.to_string(), "value": f.value, "source": f.source.name() })).collect();
        value["record"] = (*record.text).into();
        value["form"] = record.form.name().into();
        value["flags"] = flags.into();
    }
    value
}

/// Prints how every record was read that introduced a problem.
pub(crate) fn explain(contents: &[Contents]) -> anyhow::Result<()> {
    let mut from_log = false;
    for (name, log) in contents.iter().filter_map(|c| Some((&c.name, c.log.as_ref()?))) {
        // Problems stand in the order of the records that introduced them.
        let introduced = log.problems.chunk_by(|a, b| a.record == b.record);
        for (record, problems) in log.records.iter().zip(introduced) {
            from_log |= record.form.is_log();
            explain_record(name, record, problems)?;
        }
    }
    if from_log {
        output::line("")?;
        output::line(format_args!("{}What a command log does not tell, and what is taken for it{}", output::STRONG, output::RESET))?;
        for (what, taken) in NOT_IN_LOGS {
            output::line(format_args!("  {what}: {taken}"))?;
        }
    }
    Ok(())
}

fn explain_record(name: &str, record: &LoggedRecord, problems: &[LoggedProblem]) -> anyhow::Result<()> {
    let reading = record.reading(&Limits::DEFAULT)?;
    output::line("")?;
    output::line(format_args!(
        "{}{}:{}{}  {}, read as {}",
        output::STRONG,
        output::name(name),
        record.line,
        output::RESET,
        output::name(&reading.operation),
        reading.form.name()
    ))?;
    output::line(format_args!("  {}{}{}", output::DIM, output::name(&record.text), output::RESET))?;
    let mut table = output::table(&["  flag", "", ">value", "source", "meaning"]);
    for flag in &reading.flags {
        let short = format!("-{}", flag.short);
        table.add_row([
            format!("  --{}", flag.flag),
            short,
            output::name(&flag.value),
            flag.source.name().to_owned(),
            flag.meaning.to_owned(),
        ]);
    }
    output::print_table(&table, |i| match reading.flags.get(i)?.source {
        Source::Default => Some(output::DIM),
        Source::Ignored => Some(output::WARN),
        _ => None,
    })?;
    for logged in problems {
        output::line(format_args!("  {}: {}, {} records", logged.problem.direction, describe(&logged.problem), logged.count))?;
    }
    for warning in &reading.warnings {
        output::line(format_args!("  {}warning:{} {}", output::WARN, output::RESET, output::name(warning)))?;
    }
    Ok(())
}

/// The tensors of a problem on one line.
fn describe(p: &ConvProblem) -> String {
    let rank = p.rank();
    let one = |name, t: &hipplan::ProblemTensor| {
        format!("{name} {} {} strides {}", t.dtype, output::dims(&t.dims[..rank]), output::dims(&t.strides[..rank]))
    };
    [one("x", &p.x), one("w", &p.w), one("y", &p.y)].join(", ")
}
