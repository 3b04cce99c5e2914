//! MIOpenDriver lines of every kind, through the public face.

use hipplan_serialize::driver::{DriverLog, LogReader, RecordForm, SkipReason, Source, read_log};
use hipplan_serialize::{ConvDirection, ConvProblem, ConvProblemError, DataType, GraphKey, Limits, Op, ProblemMode, ProblemTensor};
use proptest::prelude::*;

fn read(text: &str) -> DriverLog {
    read_log(text.as_bytes(), &Limits::DEFAULT)
}

/// The problems of a text in which nothing is skipped.
fn problems(text: &str) -> Vec<ConvProblem> {
    let log = read(text);
    assert!(log.skipped.is_empty(), "{text}: {:?}", log.skipped);
    log.problems.iter().map(|p| p.problem).collect()
}

/// The one problem of a text.
fn one(text: &str) -> ConvProblem {
    match problems(text)[..] {
        [one] => one,
        ref other => panic!("{text}: {} problems", other.len()),
    }
}

/// Why the one record of a text is skipped.
fn skipped(text: &str) -> SkipReason {
    let log = read(text);
    match &log.skipped[..] {
        [one] if log.problems.is_empty() => one.reason.clone(),
        other => panic!("{text}: {other:?}, {} problems", log.problems.len()),
    }
}

fn warnings(text: &str) -> String {
    read(text).records.iter().flat_map(|r| r.warnings.to_vec()).collect::<Vec<_>>().join("; ")
}

fn key(problem: &ConvProblem) -> GraphKey {
    problem.to_graph(&Limits::DEFAULT).expect("a graph").view().canonical().expect("a key").key
}

const LINE: &str = "conv -n 2 -c 8 -H 10 -W 12 -k 6 -y 3 -x 5 -p 1 -q 2 -u 2 -v 1 -l 1 -j 1 -m conv -g 2 -F 1 -t 1";

#[test]
fn noise_around_a_record_changes_nothing() {
    let expected = one(&format!("./bin/MIOpenDriver {LINE}"));
    let python: Vec<String> = LINE.split(' ').map(|w| format!("'{w}'")).collect();
    let short = LINE.strip_suffix(" -t 1").expect("a tail");
    let noisy = [
        format!("MIOpenDriver {LINE}"),
        format!("     5  ./bin/MIOpenDriver {LINE}"),
        format!("MIOPEN_FIND_MODE=1 MIOPEN_FIND_ENFORCE=3 ./bin/MIOpenDriver {LINE}"),
        format!("/opt/rocm-6.2.0/bin/MIOpenDriver {LINE}"),
        format!("..\\bin\\MIOpenDriver.exe {LINE}"),
        format!("${{BIN_DIR}}MIOpenDriver {LINE}"),
        format!("$ROCM_PATH/bin/MIOpenDriver {LINE} ${{OPTIONS}}"),
        format!("MIOpenDriver: {LINE}"),
        format!("\t./bin/MIOpenDriver\t{}\t \t", LINE.replace(' ', "\t")),
        format!("./bin/MIOpenDriver  {}", LINE.replace(' ', "   ")),
        format!("./bin/MIOpenDriver {LINE} # the third layer of 7"),
        format!("./bin/MIOpenDriver {LINE} | tee out.log"),
        format!("./bin/MIOpenDriver {LINE} > out.log 2>&1"),
        format!("./bin/MIOpenDriver {LINE}; echo done -n 7"),
        format!("./bin/MIOpenDriver {LINE} && ./next -n 7"),
        format!("\"./bin/MIOpenDriver {LINE}\""),
        format!("\"./bin/MIOpenDriver {LINE}\", took 3 ms"),
        format!("I ran `MIOpenDriver {LINE}` and 7 others -n 3"),
        format!("['/opt/rocm/bin/MIOpenDriver', {}]", python.join(", ")),
        format!("subprocess.run(['./bin/MIOpenDriver', {}], check=True)", python.join(", ")),
        format!("./bin/MIOpenDriver {LINE}\\n"),
        format!("root@host:/work# ./bin/MIOpenDriver {LINE}"),
        format!("$ ./bin/MIOpenDriver {LINE}"),
        format!("[2024-10-24 12:00:01,123] INFO - MIOpen(HIP): Command [LogCmdConvolution] ./bin/MIOpenDriver {LINE}"),
        format!("MIOpen(HIP): Command [LogCmdFindConvolution] ./bin/MIOpenDriver {LINE}"),
        format!("12345 MIOpen(OpenCL)   12.345: Command [LogCmdFindConvolution] MIOpenDriver.exe {LINE} -S 0"),
        format!("[rank3]: MIOpen: Command [LogCmdFindConvolution] ./bin/MIOpenDriver {LINE}"),
        format!("[1,0]<stderr>:MIOpen(HIP): Command [LogCmdConvolution] ./bin/MIOpenDriver {LINE}"),
        format!("\x1b[33mMIOpen(HIP)\x1b[0m: Command [LogCmdConvolution] ./bin/MIOpenDriver \x1b[1m{LINE}\x1b[0m"),
        format!("./bin/MIOpenDriver {LINE}\r\n"),
        format!("\u{feff}./bin/MIOpenDriver {LINE}"),
        format!(
            "MIOpen(HIP): Info [LogConvolutionExecution] [ConvolutionExecution] Problem=\"{short}\" Solver=\"x\" Config=\"-n 7\" Time=3"
        ),
        LINE.to_owned(),
        format!("  \"{LINE}\","),
        format!("./bin/MIOpenDriver {}", LINE.replace("-g", "\\\n    -g")),
        format!("./bin/MIOpenDriver \\\r\n {}", LINE.replace("-p", "\\  \n -p")),
        format!("./bin/MIOpenDriver {}", LINE.replace("-g", "\\ -g")),
        format!("./bin/MIOpenDriver {}", LINE.replace("-t 1", "w 1 -t 1")),
        format!("./bin/MIOpenDriver {}", LINE.replace("-p 1", "-pad_h 1")),
        format!("./bin/MIOpenDriver {}", LINE.replace("-p 1", "--pad_h=1")),
        format!("./bin/MIOpenDriver {}", LINE.replace("-n 2", "-n 7 -n 2")),
        format!("./bin/MIOpenDriver {LINE} -V $Verify -S -1"),
        format!("./bin/MIOpenDriver {LINE} -$ 3 '-!' 9 -\\@ 4 --conv_stride_d 0 --dilation_d 0 --in_d 1 --fil_d 1 -% 9"),
    ];
    for text in noisy {
        assert_eq!(one(&text), expected, "{text}");
    }
}

#[test]
fn two_records_on_one_line_are_two() {
    let other = "convfp16 -n 1 -F 2 -t 1";
    let expected = [one(&format!("MIOpenDriver {LINE}")), one(&format!("MIOpenDriver {other}"))];
    for text in [
        format!("./bin/MIOpenDriver {LINE}MIOpenDriver: {other}"),
        format!("./bin/MIOpenDriver {LINE}./bin/MIOpenDriver {other}"),
        format!("./bin/MIOpenDriver {LINE} ./bin/MIOpenDriver {other}"),
        format!("MIOpen(HIP): Command [A] ./bin/MIOpenDriver {LINE}MIOpen(HIP): Command [A] ./bin/MIOpenDriver {other}"),
        format!("`MIOpenDriver {LINE}` and `MIOpenDriver {other}`"),
    ] {
        assert_eq!(problems(&text), expected, "{text}");
    }
    // A rank printed over another: the first record is not complete, and nobody knows what it was.
    let cut = &LINE[..30];
    let text = format!("MIOpen(HIP): Command [A] ./bin/MIOpenDriver {cut}MIOpen(HIP): Command [A] ./bin/MIOpenDriver {other}");
    let log = read(&text);
    assert_eq!(log.problems.iter().map(|p| p.problem).collect::<Vec<_>>(), expected[1..]);
    assert_eq!(log.skipped[0].reason, SkipReason::CutOff);
}

#[test]
fn directions_come_from_bits_and_from_function_names() {
    use ConvDirection::{BackwardData as B, BackwardWeights as W, Forward as F};
    let directions = |text: &str| problems(text).iter().map(|p| p.direction).collect::<Vec<_>>();
    for (forw, expected) in [
        ("-F 0", vec![F, B, W]),
        ("-F 1", vec![F]),
        ("-F 2", vec![B]),
        ("-F 3", vec![F, B]),
        ("-F 4", vec![W]),
        ("--forw 5", vec![F, W]),
        ("-F 6", vec![B, W]),
        ("-F 7", vec![F, B, W]),
        ("", vec![F, B, W]),
        ("-F $FORW", vec![F, B, W]),
    ] {
        assert_eq!(directions(&format!("MIOpenDriver conv {forw} -V 0")), expected, "{forw}");
    }
    for (name, expected) in [
        ("miopenConvolutionForward", F),
        ("miopenConvolutionBackwardData", B),
        ("miopenFindConvolutionBackwardWeightsAlgorithm", W),
        ("miopenConvolutionForwardImmediate", F),
    ] {
        assert_eq!(directions(&format!("{name}: ./bin/MIOpenDriver conv -n 1 -m conv -g 1 -t 1")), [expected]);
        assert_eq!(directions(&format!("{name}: ./bin/MIOpenDriver conv -n 1 -F 4 -t 1")), [W], "-F counts");
    }
    assert_eq!(skipped("MIOpenDriver conv -F 8"), SkipReason::Direction { value: 8 });
}

#[test]
fn defaults_are_those_of_the_driver() {
    let p = one("MIOpenDriver conv -F 1");
    assert_eq!(p.x, ProblemTensor::new(DataType::Float, &[100, 3, 32, 32], &[3072, 1024, 32, 1]).unwrap());
    assert_eq!(p.w, ProblemTensor::new(DataType::Float, &[32, 3, 3, 3], &[27, 9, 3, 1]).unwrap());
    assert_eq!(p.y, ProblemTensor::new(DataType::Float, &[100, 32, 30, 30], &[28800, 900, 30, 1]).unwrap());
    assert_eq!((p.groups, p.pads, p.strides, p.dilations, p.mode), (1, [0; 3], [1, 1, 0], [1, 1, 0], ProblemMode::Convolution));
    let p = one("MIOpenDriver convbfp16 -_ 3 -F 1 -g 0");
    assert_eq!((p.spatial, p.x.dims, p.w.dims), (3, [100, 3, 32, 32, 32], [32, 3, 3, 3, 3]));
    assert_eq!((p.y.dims, p.y.dtype, p.groups), ([100, 32, 30, 30, 30], DataType::BFloat16, 1));
}

#[test]
fn every_data_type_name() {
    for (name, dtype, compute) in [
        ("conv", DataType::Float, DataType::Float),
        ("convfp16", DataType::Half, DataType::Float),
        ("convbfp16", DataType::BFloat16, DataType::Float),
        ("convint8", DataType::Int8, DataType::Int32),
        ("convfp8", DataType::Fp8E4M3Fnuz, DataType::Float),
        ("convbfp8", DataType::Fp8E5M2Fnuz, DataType::Float),
    ] {
        let p = one(&format!("MIOpenDriver {name} -F 1"));
        assert_eq!(([p.x.dtype, p.w.dtype, p.y.dtype], p.compute_type()), ([dtype; 3], compute), "{name}");
    }
    assert!(matches!(skipped("MIOpenDriver convbf16 -F 1"), SkipReason::Misspelt { meant: "convbfp16", .. }));
}

#[test]
fn layouts_in_any_case_and_mixed() {
    let base = "MIOpenDriver conv -n 2 -c 4 -H 5 -W 6 -k 8 -y 1 -x 1 -F 1";
    let strides = |flags: &str| {
        let p = one(&format!("{base} {flags}"));
        [p.x.strides, p.w.strides, p.y.strides].map(|s| [s[0], s[1], s[2], s[3]])
    };
    let plain = [[120, 30, 6, 1], [4, 1, 1, 1], [240, 30, 6, 1]];
    let last = [[120, 1, 24, 4], [4, 1, 4, 4], [240, 1, 48, 8]];
    assert_eq!(strides(""), plain);
    assert_eq!(strides("--in_layout NHWC --fil_layout NHWC --out_layout NHWC"), last);
    assert_eq!(strides("-I nhwc -f Nhwc -O NhWc"), last);
    assert_eq!(strides("--out_layout NHWC"), [plain[0], plain[1], last[2]], "a log prints only the odd one");
    assert_eq!(strides("-I CHWN")[0], [1, 60, 12, 2]);
    // One vector of four channels is channels last.
    let vectors = one("MIOpenDriver convint8 -n 2 -c 4 -H 5 -W 6 -k 4 -y 1 -x 1 -F 1 -Z 1 -L 4");
    assert_eq!(vectors.x.strides[..4], last[0]);
    assert_eq!(one("MIOpenDriver conv -n 2 -c 4 -H 5 -W 6 -k 4 -y 1 -x 1 -F 1 -I NCHWc4").x.strides[..4], last[0]);
    let p = one("MIOpenDriver conv --spatial_dim 3 --in_layout ndhwc --in_d 2 -n 1 -c 3 -H 4 -W 5 -@ 1 -y 1 -x 1 -F 1");
    assert_eq!(p.x.strides, [120, 1, 60, 15, 3]);
    for (flags, is) in
        [("-I NCDHW", true), ("-I NGCHW", true), ("-I NHW", true), ("-Z 1 -L 3", false), ("-Z 2 -L 4", false), ("-L 4", false)]
    {
        match skipped(&format!("{base} {flags}")) {
            SkipReason::Layout { .. } => assert!(is, "{flags}"),
            SkipReason::Vectorisation { .. } => assert!(!is, "{flags}"),
            other => panic!("{flags}: {other}"),
        }
    }
    let two = skipped("MIOpenDriver convint8 -n 2 -c 8 -H 5 -W 6 -k 8 -y 1 -x 1 -F 1 -Z 1 -L 4");
    assert_eq!(two, SkipReason::Vectorised { tensor: "x", channels: 8, length: 4 });
}

#[test]
fn pad_modes_change_paddings_as_in_the_driver() {
    let pads = |flags: &str| {
        let p = one(&format!("MIOpenDriver conv -F 1 -H 28 -W 29 -p 7 -q 7 {flags}"));
        (p.pads[0], p.pads[1], p.y.dims[2], p.y.dims[3])
    };
    // Twice half of what is missing: one less than the rule "same" where that is odd.
    assert_eq!(pads("-z same -y 5 -x 3 -u 2 -v 2"), (1, 1, 13, 15));
    assert_eq!(pads("-z same -y 3 -x 3"), (1, 1, 28, 29));
    assert_eq!(pads("--pad_mode valid -y 3 -x 3"), (0, 0, 26, 27));
    assert_eq!(pads("-z default -y 3 -x 3"), (7, 7, 40, 41));
    assert_eq!(pads("-z same -y 3 -x 3 -l 2"), (7, 7, 38, 41), "not with dilations");
    assert_eq!(pads("-z same -y 1 -x 1 -l 2"), (0, 0, 28, 29), "but with single taps");
    assert_eq!(one("MIOpenDriver conv -F 1 -m trans -z valid -p 1 -q 1").pads, [1, 1, 0], "nor in transpose mode");
    assert!(warnings("MIOpenDriver conv -F 1 -D 64 -z 3").contains("-D 64 names a file"));
    assert!(warnings("MIOpenDriver conv -F 1 -D 64 -z 3").contains("--pad_mode \"3\""));
}

#[test]
fn a_transposed_convolution_is_the_other_operation() {
    let line =
        |direction: u8| format!("MIOpenDriver conv -m trans -n 2 -c 6 -H 5 -W 7 -k 4 -y 3 -x 3 -p 1 -q 0 -u 2 -v 3 -g 2 -F {direction}");
    let p = one(&line(1));
    assert_eq!((p.w.dims, p.y.dims), ([6, 2, 3, 3, 0], [2, 4, 9, 21, 0]));
    // The same sums from the other side: channels and images exchanged.
    let plain =
        |direction: u8| one(&format!("MIOpenDriver conv -n 2 -c 4 -H 9 -W 21 -k 6 -y 3 -x 3 -p 1 -q 0 -u 2 -v 3 -g 2 -F {direction}"));
    for (direction, other, kind) in [(1, 2, "convolution_bwd_data"), (2, 1, "convolution_fwd"), (4, 4, "convolution_bwd_filter")] {
        let p = one(&line(direction));
        assert_eq!(key(&p), key(&plain(other)), "-F {direction}");
        let graph = p.to_graph(&Limits::DEFAULT).unwrap();
        let view = graph.view();
        let node = view.nodes().next().unwrap();
        assert_eq!(view.kind(node).name(), kind);
        let name = |uid| view.tensor(view.find(uid).unwrap()).name.to_owned();
        match view.op(node) {
            Op::ConvolutionBwd(op) => assert_eq!((name(op.dy), name(op.dx)), ("x".to_owned(), "y".to_owned())),
            Op::ConvolutionFwd(op) => assert_eq!((name(op.x), name(op.y)), ("dy".to_owned(), "dx".to_owned())),
            Op::ConvolutionWrw(op) => assert_eq!((name(op.x), name(op.dy)), ("dy".to_owned(), "x".to_owned())),
            _ => panic!("not a convolution"),
        }
    }
    // Output padding below the stride hides in the rounding; from the stride on it takes padding away behind.
    let padded = |flags: &str| one(&format!("{} {flags}", line(1)));
    assert_eq!(padded("-Y 1 -X 2").y.dims[2..4], [10, 23]);
    assert_eq!(padded("-Y 1 -X 2").output_pads, [1, 2, 0]);
    let p = one("MIOpenDriver conv -m trans -n 1 -c 1 -k 1 -H 5 -W 5 -y 3 -x 3 -p 2 -q 2 -l 2 -j 2 -Y 1 -X 1 -F 1");
    let graph = p.to_graph(&Limits::DEFAULT).unwrap();
    let view = graph.view();
    match view.op(view.nodes().next().unwrap()) {
        Op::ConvolutionBwd(op) => assert_eq!((op.pre_padding, op.post_padding), (&[2, 2][..], &[1, 1][..])),
        _ => panic!("not a data gradient"),
    }
    let reason = skipped("MIOpenDriver conv -m trans -n 1 -c 1 -k 1 -H 5 -W 5 -Y 1 -F 1");
    assert!(matches!(reason, SkipReason::Problem(ConvProblemError::OutputPadding { axis: 0, found: 1, stride: 1, pad: 0 })), "{reason}");
    assert_eq!(one("MIOpenDriver conv -F 1 -Y 5").output_pads, [0; 3], "no effect in mode conv");
    assert!(matches!(skipped("MIOpenDriver conv -m trans -H 1 -y 1 -p 1 -F 1"), SkipReason::NoOutput { axis: "height", size: -1 }));
}

#[test]
fn what_cannot_be_read_is_skipped_with_its_reason() {
    use SkipReason as R;
    type Is = fn(&SkipReason) -> bool;
    let cases: &[(&str, Is)] = &[
        ("MIOpenDriver", |r| matches!(r, R::NoOperation { .. })),
        ("MIOpenDriver --version", |r| matches!(r, R::NoOperation { .. })),
        ("MIOpenDriver and its friends", |r| matches!(r, R::NoOperation { .. })),
        ("MIOpenDriver conv fails here", |r| matches!(r, R::NoOperation { .. })),
        ("MIOpenDriver conv -h x", |r| matches!(r, R::Help)),
        ("MIOpenDriver bnorm -n 1 -c 2", |r| matches!(r, R::OtherOperation { .. })),
        ("MIOpenDriver pool -W 100x3x32x32", |r| matches!(r, R::OtherOperation { .. })),
        ("MIOpenDriver gemmfp16 -m 1", |r| matches!(r, R::OtherOperation { .. })),
        ("MIOpenDriver CBAInferfp16 -F 1", |r| matches!(r, R::OtherOperation { .. })),
        ("# ./bin/MIOpenDriver conv -F 1", |r| matches!(r, R::Commented)),
        ("MIOpenDriver conv --no_such 1", |r| matches!(r, R::UnknownFlag { .. })),
        ("MIOpenDriver conv -B 1", |r| matches!(r, R::UnknownFlag { .. })),
        ("MIOpenDriver conv -n 1 -V -F 1", |r| matches!(r, R::StrayValue { .. })),
        ("MIOpenDriver conv -n 1 2 -F 1", |r| matches!(r, R::StrayValue { .. })),
        ("MIOpenDriver conv -n 1 -F", |r| matches!(r, R::NoValue { flag: "forw" })),
        ("MIOpenDriver conv -n x", |r| matches!(r, R::NotANumber { flag: "batchsize", .. })),
        ("MIOpenDriver conv -n $N", |r| matches!(r, R::Variable { flag: "batchsize", .. })),
        ("MIOpenDriver conv -m $M", |r| matches!(r, R::Variable { flag: "mode", .. })),
        ("MIOpenDriver conv -I $L", |r| matches!(r, R::Variable { flag: "in_layout", .. })),
        ("MIOpenDriver conv -n 0", |r| matches!(r, R::OutOfRange { flag: "batchsize", value: 0, .. })),
        ("MIOpenDriver conv -p -1", |r| matches!(r, R::OutOfRange { flag: "pad_h", value: -1, .. })),
        ("MIOpenDriver conv -u 0", |r| matches!(r, R::OutOfRange { flag: "conv_stride_h", .. })),
        ("MIOpenDriver conv -n 99999999999999999999", |r| matches!(r, R::OutOfRange { flag: "batchsize", .. })),
        ("MIOpenDriver conv -_ 1", |r| matches!(r, R::OutOfRange { flag: "spatial_dim", .. })),
        ("MIOpenDriver conv -_ 3 -# 0", |r| matches!(r, R::OutOfRange { flag: "conv_stride_d", .. })),
        ("MIOpenDriver conv -m convolution", |r| matches!(r, R::Mode { .. })),
        ("MIOpenDriver conv -g 2", |r| matches!(r, R::Groups { groups: 2, channels: 3, .. })),
        ("MIOpenDriver conv -y 33", |r| matches!(r, R::FilterTooLarge { axis: "height", extent: 33, room: 32 })),
        ("MIOpenDriver conv -U fp8", |r| matches!(r, R::Cast { flag: "in_cast_type", .. })),
        ("MIOpenDriver conv -T int32", |r| matches!(r, R::Cast { reason: "the driver refuses int32", .. })),
        ("MIOpenDriver conv -n 2147483647 -c 2147483647 -H 2147483647", |r| matches!(r, R::Problem(ConvProblemError::Graph(_)))),
    ];
    for (text, is) in cases {
        let reason = skipped(text);
        assert!(is(&reason), "{text}: {reason:?}");
        let loss = !matches!(reason, R::NoOperation { .. } | R::OtherOperation { .. } | R::Commented | R::Help);
        assert_eq!(reason.is_loss(), loss);
        let c = read(text).coverage;
        assert_eq!((c.records, c.read, c.lost, c.other), (1, 0, u64::from(loss), u64::from(!loss)));
    }
    // What is not about the driver at all is not even a record.
    for text in ["", "\n\n", "libMIOpenDriverTools.so -n 1", "# MIOpenDriver is a tool", "convolution -n 1", "a conv -n 1", "-n 1 -c 3"] {
        assert_eq!(read(text).coverage.records, 0, "{text}");
    }
    // A cast to the type that the tensors have is none, and unused zeros of a 2-D line are not looked at.
    assert_eq!(one("MIOpenDriver convfp16 -F 1 -U fp16 -T -1"), one("MIOpenDriver convfp16 -F 1 --conv_stride_d 0 --in_d 0"));
}

#[test]
fn every_flag_is_explained() {
    let log = read("MIOpen(HIP): Command [LogCmdFindConvolution] ./bin/MIOpenDriver conv -n 4 -H 1 -y 1 -x 3 -F 2 -t 1 --in_d 7 -b 1");
    let reading = log.records[0].reading(&Limits::DEFAULT).expect("read before");
    assert_eq!((reading.form, reading.operation.as_str()), (RecordForm::CommandLog, "conv"));
    let of = |flag: &str| reading.flags.iter().find(|f| f.flag == flag).map(|f| (f.value.as_str(), f.source));
    assert_eq!(of("batchsize"), Some(("4", Source::Given)));
    assert_eq!(of("in_channels"), Some(("3", Source::Default)));
    assert_eq!(of("in_layout"), Some(("NCHW", Source::Default)));
    assert_eq!(of("time"), Some(("1", Source::Ignored)));
    assert_eq!(of("in_d"), Some(("7", Source::Ignored)));
    assert_eq!((of("bias"), of("iter"), of("pad_d")), (Some(("1", Source::Ignored)), None, None));
    assert!(reading.warnings.iter().any(|w| w.contains("1-D")) && reading.warnings.iter().any(|w| w.contains("bias")));
    let log = read("miopenConvolutionBackwardData: ./bin/MIOpenDriver conv -n 4 -m conv -g 1 -t 1");
    let reading = log.records[0].reading(&Limits::DEFAULT).expect("read before");
    let forw = reading.flags.iter().find(|f| f.flag == "forw").expect("explained");
    assert_eq!((forw.value.as_str(), forw.source), ("2", Source::Prefix));
}

#[test]
fn repeats_are_counted_and_lists_are_bounded() {
    let mut text = String::new();
    for i in 0..1000 {
        text += &format!("{i} MIOpen(HIP): Command [A] ./bin/MIOpenDriver conv -n {} -F 1 -t 1\nnoise {i}\n", 1 + i % 10);
        text += &format!("MIOpenDriver pool -n {}\nMIOpenDriver conv -n 0 -i {}\n", i % 5, i % 7);
    }
    let log = read(&text);
    assert_eq!(log.problems.len(), 10);
    assert!(log.problems.iter().zip(1..).all(|(p, n)| p.count == 100 && p.problem.x.dims[0] == n && p.line == 4 * (n as u64 - 1) + 1));
    assert_eq!(log.skipped.iter().map(|s| s.count).sum::<u64>(), 2000);
    assert_eq!(log.skipped.len(), 12);
    let c = log.coverage;
    assert_eq!((c.lines, c.records, c.read, c.lost, c.other, c.unlisted), (4000, 3000, 1000, 1000, 1000, 0));

    let limits = Limits { max_problems: 3, max_skipped: 2, max_line_bytes: 80, ..Limits::DEFAULT };
    let log = read_log(text.as_bytes(), &limits);
    assert_eq!((log.problems.len(), log.skipped.len()), (3, 2));
    assert_eq!(log.coverage.read, 300);
    assert_eq!(log.coverage.read + log.coverage.lost + log.coverage.other, 3000);
    assert_eq!(log.coverage.unlisted + log.skipped.iter().map(|s| s.count).sum::<u64>(), 2700);
    let long = format!("MIOpenDriver conv -F 1 {}\nMIOpenDriver conv -F 1\n", "-V 1 ".repeat(20));
    let log = read_log(long.as_bytes(), &limits);
    assert_eq!((log.skipped[0].reason.clone(), log.problems.len()), (SkipReason::LineTooLong { limit: 80 }, 1));
}

/// A problem as the driver could be told of it.
fn any_problem() -> impl Strategy<Value = ConvProblem> {
    let axis = (1_i64..20, 1_i64..5, 0_i64..4, 1_i64..4, 1_i64..3, 0_i64..2);
    let types = prop::sample::select(vec![DataType::Float, DataType::Half, DataType::BFloat16, DataType::Int8]);
    let layouts = [0_usize..3, 0..3, 0..3];
    let channels = (1_i64..4, 1_i64..4, 1_i64..4, 1_i64..6);
    (prop::collection::vec(axis, 2..=3), types, layouts, channels, prop::sample::select(&ConvDirection::ALL[..]), any::<bool>())
        .prop_filter_map("the filter does not fit", |(axes, dtype, layouts, (groups, c, k, n), direction, is_transpose)| {
            let (c, k) = (c * groups, k * groups);
            let (mut x, mut y) = (vec![n, c], vec![n, k]);
            let mut w = if is_transpose { vec![c, k / groups] } else { vec![k, c / groups] };
            let mut lists = [[0; 3]; 4];
            for (d, &(size, taps, pad, stride, dilation, output_pad)) in axes.iter().enumerate() {
                let output_pad = if is_transpose && stride > 1 { output_pad } else { 0 };
                let extent = (taps - 1) * dilation + 1;
                let out = if is_transpose {
                    (size - 1) * stride + extent - 2 * pad + output_pad
                } else {
                    if size + 2 * pad < extent {
                        return None;
                    }
                    (size + 2 * pad - extent) / stride + 1
                };
                if out < 1 {
                    return None;
                }
                x.push(size);
                w.push(taps);
                y.push(out);
                lists.iter_mut().zip([pad, stride, dilation, output_pad]).for_each(|(l, v)| l[d] = v);
            }
            let tensor = |dims: &[i64], layout: usize| {
                let last = dims.len();
                let order: Vec<usize> = match layout {
                    0 => (0..last).collect(),
                    1 => [0].into_iter().chain(2..last).chain([1]).collect(),
                    _ => (1..last).chain([0]).collect(),
                };
                let mut strides = vec![0; last];
                let mut step = 1;
                for &axis in order.iter().rev() {
                    strides[axis] = step;
                    step *= dims[axis];
                }
                ProblemTensor::new(dtype, dims, &strides).expect("ranks agree")
            };
            let [pads, strides, dilations, output_pads] = lists;
            Some(ConvProblem {
                direction,
                mode: if is_transpose { ProblemMode::Transpose } else { ProblemMode::Convolution },
                spatial: axes.len() as u8,
                x: tensor(&x, layouts[0]),
                w: tensor(&w, layouts[1]),
                y: tensor(&y, layouts[2]),
                groups,
                pads,
                strides,
                dilations,
                output_pads,
            })
        })
}

/// The layout whose packed strides a tensor has.
fn layout(t: &ProblemTensor, rank: usize) -> &'static str {
    let names: [(&str, Vec<usize>); 3] = match rank {
        4 => [("NCHW", vec![0, 1, 2, 3]), ("NHWC", vec![0, 2, 3, 1]), ("CHWN", vec![1, 2, 3, 0])],
        _ => [("NCDHW", vec![0, 1, 2, 3, 4]), ("NDHWC", vec![0, 2, 3, 4, 1]), ("CDHWN", vec![1, 2, 3, 4, 0])],
    };
    let fits = |order: &[usize]| {
        let mut step = 1;
        order.iter().rev().all(|&axis| {
            let fits = t.strides[axis] == step;
            step *= t.dims[axis];
            fits
        })
    };
    names.iter().find(|(_, order)| fits(order)).map(|(name, _)| *name).expect("a layout")
}

/// The flags of a problem, each with its value: short name, long name, value.
fn flags(p: &ConvProblem) -> Vec<(&'static str, &'static str, String)> {
    let rank = p.rank();
    let (c, k) = (p.x.dims[1], p.y.dims[1]);
    let names: [[(&str, &str); 6]; 3] = [
        [("!", "in_d"), ("@", "fil_d"), ("$", "pad_d"), ("#", "conv_stride_d"), ("^", "dilation_d"), ("%", "trans_output_pad_d")],
        [("H", "in_h"), ("y", "fil_h"), ("p", "pad_h"), ("u", "conv_stride_h"), ("l", "dilation_h"), ("Y", "trans_output_pad_h")],
        [("W", "in_w"), ("x", "fil_w"), ("q", "pad_w"), ("v", "conv_stride_w"), ("j", "dilation_w"), ("X", "trans_output_pad_w")],
    ];
    let mut all = vec![
        ("n", "batchsize", p.x.dims[0].to_string()),
        ("c", "in_channels", c.to_string()),
        ("k", "out_channels", k.to_string()),
        ("g", "group_count", p.groups.to_string()),
        ("m", "mode", p.mode.name().to_owned()),
        ("F", "forw", p.direction.bit().to_string()),
        ("_", "spatial_dim", p.spatial.to_string()),
        ("I", "in_layout", layout(&p.x, rank).to_owned()),
        ("f", "fil_layout", layout(&p.w, rank).to_owned()),
        ("O", "out_layout", layout(&p.y, rank).to_owned()),
    ];
    let spatial = usize::from(p.spatial);
    for d in 0..spatial {
        let values = [p.x.dims[2 + d], p.w.dims[2 + d], p.pads[d], p.strides[d], p.dilations[d], p.output_pads[d]];
        all.extend(names[3 - spatial + d].iter().zip(values).map(|(&(short, long), v)| (short, long, v.to_string())));
    }
    all
}

fn operation(p: &ConvProblem) -> &'static str {
    match p.x.dtype {
        DataType::Half => "convfp16",
        DataType::BFloat16 => "convbfp16",
        DataType::Int8 => "convint8",
        _ => "conv",
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_printed_problem_is_read_again(
        p in any_problem(),
        order in prop::collection::vec(any::<u32>(), 32),
        style in any::<u32>(),
        noise in 0_usize..6,
    ) {
        let mut flags: Vec<_> = flags(&p).into_iter().zip(&order).collect();
        flags.sort_by_key(|(_, at)| **at);
        let mut text = operation(&p).to_owned();
        for (i, ((short, long, value), _)) in flags.into_iter().enumerate() {
            let value = if style & 1 << 31 != 0 && long.ends_with("layout") { value.to_lowercase() } else { value };
            text += &if style & 1 << (i % 31) == 0 { format!(" -{short} {value}") } else { format!(" --{long} {value}") };
            if i == 5 {
                text += [" -t 1", "\t-V 0", " --iter 7", "  -S ConvAsm1x1U", " \\\n", " -w 1"][noise];
            }
        }
        let prefix = ["./bin/MIOpenDriver ", "7 MIOpen(HIP): Command [X] ./bin/MIOpenDriver ", "A=1 /x/MIOpenDriver.exe ", "`MIOpenDriver ",
            "${B}MIOpenDriver: ", "\"MIOpenDriver "][noise];
        let suffix = ["", "\t", " # x", "` -n 9", " ${OPTIONS}", "\","][noise];
        let text = format!("noise\n{prefix}{text}{suffix}\nmore noise");
        prop_assert_eq!(one(&text), p, "{}", text);
        // And it is a graph of the right shapes.
        let graph = p.to_graph(&Limits::DEFAULT).expect("a graph");
        let view = graph.view();
        let dims: Vec<&[i64]> = view.tensors().iter().map(|t| t.dims).collect();
        prop_assert_eq!(dims, vec![&p.x.dims[..p.rank()], &p.w.dims[..p.rank()], &p.y.dims[..p.rank()]]);
    }

    #[test]
    fn any_bytes_are_read_in_any_pieces(text in text(), cuts in prop::collection::vec(0_usize..400, 0..6)) {
        let whole = read_log(&text, &Limits::DEFAULT);
        let mut reader = LogReader::new(&Limits::DEFAULT);
        let mut rest = &text[..];
        for cut in cuts {
            let (piece, behind) = rest.split_at(cut.min(rest.len()));
            reader.push(piece);
            rest = behind;
        }
        reader.push(rest);
        prop_assert_eq!(&reader.finish(), &whole);
        let c = whole.coverage;
        prop_assert_eq!(c.read + c.lost + c.other, c.records);
        prop_assert_eq!(whole.skipped.iter().map(|s| s.count).sum::<u64>() + c.unlisted, c.lost + c.other);
    }

    #[test]
    fn any_problem_is_a_graph_or_an_error(
        direction in prop::sample::select(&ConvDirection::ALL[..]),
        is_transpose in any::<bool>(),
        spatial in any::<u8>(),
        numbers in prop::collection::vec(prop_oneof![0_i64..5, any::<i64>(), Just(i64::MAX), Just(i64::MIN)], 48),
        dtype in prop::sample::select(DataType::ALL),
    ) {
        let five = |at: usize| [0, 1, 2, 3, 4].map(|i| numbers[at + i]);
        let three = |at: usize| [0, 1, 2].map(|i| numbers[at + i]);
        let tensor = |at| ProblemTensor { dtype, dims: five(at), strides: five(at + 5) };
        let problem = ConvProblem {
            direction,
            mode: if is_transpose { ProblemMode::Transpose } else { ProblemMode::Convolution },
            spatial: if spatial < 200 { spatial % 5 } else { spatial },
            x: tensor(0), w: tensor(10), y: tensor(20),
            groups: numbers[30],
            pads: three(31), strides: three(34), dilations: three(37), output_pads: three(40),
        };
        let _ = (problem.to_graph(&Limits::DEFAULT), problem.macs(), problem.compute_type());
    }
}

/// Bytes, words that the reader knows, and mixtures.
fn text() -> impl Strategy<Value = Vec<u8>> {
    let words = prop::sample::select(vec![
        "MIOpenDriver",
        "./bin/MIOpenDriver",
        "MIOpenDriver.exe",
        "MIOpenDriver:",
        "conv",
        "convfp16",
        "convint8",
        "pool",
        "Problem=\"",
        "MIOpen(HIP):",
        "Command [",
        "miopenConvolutionForward:",
        "-n",
        "-F",
        "--forw",
        "-m",
        "trans",
        "conv",
        "-I",
        "NHWC",
        "NCHWc4",
        "1",
        "0",
        "-1",
        "3",
        "99999999999999999999",
        "$X",
        "\"",
        "'",
        "`",
        "\\\n",
        "\n",
        "#",
        ";",
        "-",
        "--",
        "-\\",
        "=",
        "--in_h=4",
        "\x1b[0m",
        "\x1b",
        "-H",
        "-W",
        "-y",
        "-x",
        "-p",
        "-z",
        "same",
        "-_",
        "-Z",
        "-L",
        "4",
        "-b",
        "-D",
        "\\n",
        "[",
        ",",
        "\u{feff}",
    ]);
    let blank = prop::sample::select(vec![" ", "", "\t"]);
    let known = (words, blank).prop_map(|(w, b)| format!("{w}{b}").into_bytes());
    let piece = prop_oneof![6 => known, 1 => prop::collection::vec(any::<u8>(), 0..6)];
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}
