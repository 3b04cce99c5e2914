//! Every expression against the reference: as C++ on the host.

use super::*;
use hipplan_exec::reference::Random;
use hipplan_exec::reference::ops::{Parameters, pointwise, pointwise_scale};
use hipplan_serialize::Uid;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

#[test]
fn literals_are_exact() {
    for (value, float, double) in [
        (1.0, "0x1p+0f", "0x1p+0"),
        (-1.5, "(-0x1.8p+0f)", "(-0x1.8p+0)"),
        (0.0, "0x0p+0f", "0x0p+0"),
        (-0.0, "(-0x0p+0f)", "(-0x0p+0)"),
        (0.1, "0x1.99999ap-4f", "0x1.999999999999ap-4"),
        (1e-40, "0x1.16c2p-133f", "0x1.16c262777579cp-133"),
        (5e-324, "0x0p+0f", "0x0.0000000000001p-1022"),
        (1e300, "hp_infinity(0.0f)", "0x1.7e43c8800759cp+996"),
        (f64::NEG_INFINITY, "(-hp_infinity(0.0f))", "(-hp_infinity(0.0))"),
        (f64::NAN, "hp_nan(0.0f)", "hp_nan(0.0)"),
    ] {
        assert_eq!(literal(value, "float"), float);
        assert_eq!(literal(value, "double"), double);
    }
}

/// A node of a mode, with parameters that are not the defaults or without.
fn node(mode: Mode, given: bool) -> Pointwise {
    let mut op = Pointwise::unary(mode, Uid(1), Uid(2));
    if given {
        op.relu_lower_clip = Some(-1.0);
        op.relu_upper_clip = Some(6.0);
        op.relu_lower_clip_slope = Some(0.1);
        op.swish_beta = Some(1.7);
        op.elu_alpha = Some(0.3);
        op.softplus_beta = Some(2.5);
    }
    op
}

fn modes() -> impl Iterator<Item = Mode> {
    Mode::ALL.iter().copied().filter(|&mode| mode != Mode::Unset && mode != Mode::GenIndex)
}

#[test]
fn what_has_no_expression() {
    let operands = |n| vec!["x".to_owned(); n];
    assert_eq!(expression(&node(Mode::Unset, false), &operands(0), "float"), None);
    assert_eq!(expression(&node(Mode::GenIndex, false), &operands(1), "float"), None);
    assert_eq!(expression(&node(Mode::Add, false), &operands(1), "float"), None);
    assert_eq!(expression(&node(Mode::Max, false), &operands(2), "float").as_deref(), Some("hp_max_op(x, x)"));
    for mode in modes() {
        assert!(expression(&node(mode, false), &operands(mode.arity()), "float").is_some(), "{mode}");
    }
}

/// Points at which each function is tried: special numbers in all pairs, and random ones.
fn points() -> Vec<[f64; 3]> {
    let special = [0.0, -0.0, 0.5, -1.0, 1.0, 6.0, 7.0, -30.0, 30.0, -200.0, 200.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
    let mut points: Vec<[f64; 3]> =
        special.iter().flat_map(|&a| special.iter().flat_map(move |&b| [[a, b, 0.0], [a, b, 1.0]])).chain([[1.0, 2.0, f64::NAN]]).collect();
    let mut random = Random::new(7);
    for size in [1.0, 4.0, 20.0] {
        points.extend((0..500).map(|_| [0; 3].map(|_| f64::from(random.uniform(-size, size) as f32))));
    }
    points
}

/// A program that prints a line for each mode, parameters, type and point.
fn program(points: &[[f64; 3]]) -> String {
    let mut text = String::new();
    for name in ["tx", "bx", "by", "bz"] {
        writeln!(text, "extern \"C\" int hp_host_{name}(void) {{ return 0; }}").unwrap();
    }
    text.push_str("extern \"C\" void hp_host_sync(void) {}\n");
    for part in
        [include_str!("../../../kernels/prelude.h"), include_str!("../../../kernels/math.h"), include_str!("../../../kernels/pointwise.h")]
    {
        text.push_str(part);
    }
    text.push_str("#include <cstdio>\nstatic const double points[][3] = {\n");
    for point in points {
        writeln!(text, "{{{}}},", point.map(|x| literal(x, "double")).join(", ")).unwrap();
    }
    text.push_str("};\nint main()\n{\n");
    for (mode, given, element) in cases() {
        let operands: Vec<String> = ["x", "y", "z"].iter().take(mode.arity()).map(|&name| name.to_owned()).collect();
        let call = expression(&node(mode, given), &operands, element).unwrap();
        let at = |i: usize| format!("({element})p[{i}]");
        writeln!(
            text,
            "for (auto& p : points) {{ {element} x = {}, y = {}, z = {}; (void)y; (void)z; std::printf(\"%a\\n\", (double){call}); }}",
            at(0),
            at(1),
            at(2)
        )
        .unwrap();
    }
    text.push_str("}\n");
    text
}

fn cases() -> impl Iterator<Item = (Mode, bool, &'static str)> {
    modes().flat_map(|mode| [false, true].into_iter().flat_map(move |given| ["float", "double"].map(|element| (mode, given, element))))
}

fn run(command: &mut Command) -> Option<Vec<u8>> {
    match command.output() {
        Ok(out) => {
            assert!(out.status.success(), "{command:?}: {}", String::from_utf8_lossy(&out.stderr));
            Some(out.stdout)
        }
        Err(error) => {
            assert!(std::env::var_os("HIPPLAN_CI").is_none(), "g++ is needed: {error}");
            eprintln!("skipped, as g++ does not run: {error}");
            None
        }
    }
}

fn compile_and_run(dir: &Path, text: &str) -> Option<String> {
    let (source, binary) = (dir.join("pointwise.cpp"), dir.join("pointwise"));
    std::fs::write(&source, text).unwrap();
    run(Command::new("g++").args(["-std=c++17", "-O1", "-ffp-contract=off", "-DHP_HOST", "-o"]).arg(&binary).arg(&source))?;
    run(&mut Command::new(binary)).map(|out| String::from_utf8(out).unwrap())
}

/// A number as `%a` prints it.
fn parse(text: &str) -> f64 {
    let (sign, rest) = text.strip_prefix('-').map_or((1.0, text), |rest| (-1.0, rest));
    let Some((digits, exponent)) = rest.strip_prefix("0x").and_then(|rest| rest.split_once('p')) else {
        return if rest == "inf" { sign * f64::INFINITY } else { f64::NAN };
    };
    let places = digits.split_once('.').map_or(0, |(_, fraction)| fraction.len() as i32);
    let whole = u64::from_str_radix(&digits.replace('.', ""), 16).unwrap() as f64;
    let exponent: i32 = exponent.parse().unwrap();
    // In two steps, as the power of a subnormal number may be none.
    sign * whole * 2.0_f64.powi(-4 * places) * 2.0_f64.powi(exponent / 2) * 2.0_f64.powi(exponent - exponent / 2)
}

#[test]
fn expressions_compute_what_the_reference_says() {
    let points = points();
    let dir = tempfile::tempdir().unwrap();
    let Some(printed) = compile_and_run(dir.path(), &program(&points)) else { return };
    let mut lines = printed.lines();
    for (mode, given, element) in cases() {
        let p = Parameters::of(&node(mode, given));
        let unit = if element == "float" { 2.0_f64.powi(-24) } else { 2.0_f64.powi(-53) };
        let tiny = if element == "float" { f64::from(f32::MIN_POSITIVE) } else { f64::MIN_POSITIVE };
        for &at in &points {
            let found = parse(lines.next().unwrap());
            let exact = pointwise(mode, &p, at);
            let overflows = element == "float" && (exact as f32).is_infinite();
            let expected = if overflows { f64::from(exact as f32) } else { exact };
            let scale = pointwise_scale(mode, &p, at);
            if is_limit(mode, at) {
                continue;
            }
            let good = found == expected || found.is_nan() && expected.is_nan() || {
                let tolerance = 8.0 * unit * scale + tiny;
                (found - expected).abs() <= if scale == 0.0 { unit * expected.abs() } else { tolerance }
            };
            assert!(good, "{mode} of {at:?} in {element}, parameters given: {given}: {found:e}, not {expected:e}");
        }
    }
    assert_eq!(lines.next(), None);
}

/// Where textbook formula and reference differ at infinity, because one of them multiplies 0 by it.
fn is_limit(mode: Mode, at: [f64; 3]) -> bool {
    let infinite = at.iter().take(mode.arity()).any(|x| x.is_infinite());
    infinite
        && matches!(
            mode,
            Mode::SigmoidBwd
                | Mode::SwishFwd
                | Mode::SwishBwd
                | Mode::GeluFwd
                | Mode::GeluBwd
                | Mode::GeluApproxTanhFwd
                | Mode::GeluApproxTanhBwd
                | Mode::TanhBwd
                | Mode::EluBwd
                | Mode::SoftplusBwd
        )
}
