//! MIOpenDriver command lines and logs.

use super::{Stage, graph};
use crate::Rng;
use crate::shell::{Shell, patch};
use hipplan_serialize::Limits;
use hipplan_serialize::driver::{DriverLog, LogReader, read_log};

/// Words of command lines and of the noise around them.
#[rustfmt::skip]
const WORDS: [&str; 64] = [
    "conv", "convfp16", "convbfp16", "convint8", "./bin/MIOpenDriver", "-n", "-c", "-H", "-W", "-k", "-y", "-x", "-p", "-q",
    "-u", "-v", "-l", "-j", "-g", "-m", "trans", "-F", "-S", "-1", "--spatial_dim", "3", "--in_d", "--fil_d", "--pad_d",
    "--in_layout", "NHWC", "NCHW", "NDHWC", "--fil_layout", "--out_layout", "-Y", "-X", "-z", "same", "-Z", "-L", "4",
    "--batchsize", "2", "8", "1", "0", "-t", "-V", "-I", "nhwc", "'", "\"", "\\", "#", "$V", "MIOpen(HIP):",
    "miopenConvolutionBackwardData:", "LogCmdConvolution]", ",", "[", "=", "2147483647", "\n",
];

/// One command. Kind 0: text as it stands; 1: words of the table behind a command that is valid; 2: the same with bytes changed.
pub(super) fn line(input: &[u8]) -> Stage {
    let Some(shell) = Shell::of(input) else { return Stage::Form };
    let mut text = match shell.kind % 3 {
        0 => shell.rest.to_vec(),
        _ => command(shell.rest),
    };
    if shell.kind % 3 == 2 {
        patch(&mut text, shell.rest);
    }
    text.retain(|&b| b != b'\n');
    read(&text)
}

/// A log. Kind 0: text as it stands; 1: commands made of words; 2: the same with bytes changed.
pub(super) fn log(input: &[u8]) -> Stage {
    let Some(shell) = Shell::of(input) else { return Stage::Form };
    let mut text = match shell.kind % 3 {
        0 => shell.rest.to_vec(),
        _ => shell.rest.split(|&b| b == 0xff).take(64).flat_map(|part| [command(part), b"\n".to_vec()].concat()).collect(),
    };
    if shell.kind % 3 == 2 {
        patch(&mut text, shell.rest);
    }
    read(&text)
}

/// Pairs of a flag and a value for the most part; the bytes of the input choose the words.
fn command(bytes: &[u8]) -> Vec<u8> {
    #[rustfmt::skip]
    const FLAGS: [&str; 24] = [
        "-n", "-c", "-H", "-W", "-k", "-y", "-x", "-p", "-q", "-u", "-v", "-l", "-j", "-g", "-F", "--in_d", "--fil_d",
        "--pad_d", "--conv_stride_d", "--spatial_dim", "-m", "--in_layout", "-S", "-t",
    ];
    let mut rng = Rng::from_bytes(bytes);
    let mut text = format!("MIOpenDriver {}", WORDS[rng.below(4)]);
    for _ in 0..(bytes.len() / 2).min(64) {
        let flag = FLAGS[rng.below(FLAGS.len())];
        let value = match (flag, rng.below(16)) {
            (_, 0) => WORDS[rng.below(WORDS.len())].to_owned(),
            ("-m", n) => ["conv", "trans"][n % 2].to_owned(),
            ("--in_layout", n) => ["NHWC", "NCHW"][n % 2].to_owned(),
            ("--spatial_dim", n) => (2 + n % 2).to_string(),
            ("-p" | "-q" | "--pad_d" | "-S" | "-t", n) => (n % 4).to_string(),
            ("-g", n) => [1, 1, 2, 4][n % 4].to_string(),
            (_, n) => (n % 12 + 1).to_string(),
        };
        text += &format!(" {flag} {value}");
        if rng.one_in(32) {
            text += &format!(" {}", WORDS[rng.below(WORDS.len())]);
        }
    }
    text.into_bytes()
}

fn read(text: &[u8]) -> Stage {
    let log = read_log(text, &Limits::DEFAULT);
    // A log is the same in whatever pieces it comes.
    let mut reader = LogReader::new(&Limits::DEFAULT);
    for piece in text.chunks(7) {
        reader.push(piece);
    }
    assert_eq!(reader.finish(), log);
    accepted(&log);
    let c = &log.coverage;
    assert_eq!(c.read + c.lost + c.other, c.records, "{c:?}");
    if !log.problems.is_empty() {
        Stage::Accepted
    } else if c.lost > 0 {
        Stage::Meaning
    } else {
        Stage::Form
    }
}

/// Every problem of a log is a valid graph, and different problems are different graphs.
fn accepted(log: &DriverLog) {
    let mut keys = Vec::new();
    for it in &log.problems {
        assert!(it.count > 0 && it.line > 0 && it.record < log.records.len());
        let graph = it.problem.to_graph(&Limits::DEFAULT).expect("a problem of a log is a graph");
        let view = graph.view();
        graph::accepted(&view);
        keys.push(view.canonical().expect("known fields only").key);
    }
    // What is made again of a record's text is what was read of the record.
    for (i, record) in log.records.iter().enumerate() {
        let reading = record.reading(&Limits::DEFAULT).expect("a record of a log is read again");
        assert_eq!((reading.form, &reading.warnings[..]), (record.form, &record.warnings[..]));
        for it in log.problems.iter().filter(|it| it.record == i) {
            assert!(reading.problems.contains(&it.problem), "{}", record.text);
        }
    }
    keys.sort_unstable();
    keys.dedup();
    assert!(keys.len() <= log.problems.len());
}
