//! The corpus of real MIOpenDriver lines against a table that was made apart from the reader.

use hipplan_serialize::driver::{DriverLog, read_log};
use hipplan_serialize::{ConvProblem, Limits, ProblemTensor};
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/miopen").join(name)
}

fn text(name: &str) -> String {
    std::fs::read_to_string(file(name)).expect("corpus/miopen")
}

/// A problem as the table writes it, without its line.
fn describe(p: &ConvProblem) -> String {
    let list = |l: &[i64]| l.iter().map(i64::to_string).collect::<Vec<_>>().join("x");
    let (rank, spatial) = (p.rank(), usize::from(p.spatial));
    let tensor = |t: &ProblemTensor| format!("{}:{}", list(&t.dims[..rank]), list(&t.strides[..rank]));
    format!(
        "{} {} {} g{} x={} w={} y={} pad={} stride={} dilation={}",
        p.direction,
        p.mode.name(),
        p.x.dtype,
        p.groups,
        tensor(&p.x),
        tensor(&p.w),
        tensor(&p.y),
        list(&p.pads[..spatial]),
        list(&p.strides[..spatial]),
        list(&p.dilations[..spatial])
    )
}

fn expected() -> BTreeMap<u64, Vec<String>> {
    let mut table: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    for line in text("expected-problems.txt").lines().filter(|l| !l.starts_with('#')) {
        let (number, problem) = line.split_once(' ').expect("a line number");
        table.entry(number.parse().expect("a number")).or_default().push(problem.to_owned());
    }
    table
}

#[test]
fn every_line_is_the_problem_that_the_table_says() {
    let expected = expected();
    let mut lines = 0;
    for (number, line) in (1..).zip(text("driver-lines.txt").lines()) {
        let log = read_log(line.as_bytes(), &Limits::DEFAULT);
        let found: Vec<String> = log.problems.iter().map(|p| describe(&p.problem)).collect();
        let wanted = expected.get(&number).cloned().unwrap_or_default();
        assert_eq!(found, wanted, "line {number}: {line}");
        assert!(log.skipped.is_empty(), "line {number}: {:?}", log.skipped);
        lines += usize::from(!line.starts_with('#'));
    }
    assert_eq!((lines, expected.len()), (59, 59), "lines of the corpus");
}

#[test]
fn the_whole_file_is_one_log_with_nothing_lost() {
    let bytes = std::fs::read(file("driver-lines.txt")).expect("readable");
    let log = read_log(&bytes, &Limits::DEFAULT);
    let all: Vec<String> = expected().into_values().flatten().collect();
    let mut count: HashMap<&String, u64> = HashMap::new();
    for problem in &all {
        *count.entry(problem).or_default() += 1;
    }
    assert_eq!(log.problems.len(), count.len());
    for problem in &log.problems {
        assert_eq!(count.get(&describe(&problem.problem)), Some(&problem.count), "{problem:?}");
    }
    let c = log.coverage;
    assert_eq!((c.lines, c.records, c.read, c.lost, c.other), (69, 59, 59, 0, 0));
    warnings_name_what_was_read_leniently(&log);

    // Every problem is a graph with the shapes of its tensors, and equal problems have equal keys.
    let mut keys = HashMap::new();
    for problem in &log.problems {
        let p = &problem.problem;
        let graph = p.to_graph(&Limits::DEFAULT).expect("a graph");
        let view = graph.view();
        for (tensor, wanted) in view.tensors().iter().zip([p.x, p.w, p.y]) {
            assert_eq!((tensor.dims, tensor.dtype), (&wanted.dims[..p.rank()], wanted.dtype));
            assert_eq!(tensor.strides, &wanted.strides[..p.rank()]);
        }
        let key = view.canonical().expect("a key").key;
        assert_eq!(keys.insert(key, *p), None, "{}", describe(p));
    }
}

fn warnings_name_what_was_read_leniently(log: &DriverLog) {
    let of = |line: u64| log.records.iter().find(|r| r.line == line).map(|r| r.warnings.join("; ")).expect("a record");
    assert!(of(46).contains("${OPTIONS}"), "{}", of(46));
    assert!(of(67).contains("1-D"), "{}", of(67));
    assert_eq!(of(5), "");
}
