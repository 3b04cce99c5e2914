//! The text of a kernel: macro layer, argument struct, functions that turn positions into offsets, and one of the kernel bodies.

use super::arguments::Arguments;
use super::compiler::KernelSource;
use super::nest::{Loop, Role};
use super::work::{Number, OUT, Sum, Work, X, Y};
use hipplan_exec::hip::ArgumentPatch;
use hipplan_serialize::ReductionMode;
use std::fmt::Write;

const PRELUDE: &str = include_str!("../../kernels/prelude.h");
const ELEMENTS: &str = include_str!("../../kernels/elements.h");
const MATH: &str = include_str!("../../kernels/math.h");
const POINTWISE: &str = include_str!("../../kernels/pointwise.h");

/// Positions of the depth beyond the last that kernels take apart without reading there: a tiled product goes in steps of up to 16.
pub(super) const DEPTH_OVERSHOOT: i64 = 16;

/// A kernel body: the file behind the generated text, and what it needs defined.
#[derive(Clone, Debug)]
pub(super) struct Body {
    /// First part of the kernel's name.
    pub(super) kind: &'static str,
    pub(super) text: &'static str,
    /// Preprocessor definitions, in order.
    pub(super) defines: Vec<(&'static str, i64)>,
    pub(super) block: u32,
}

/// A kernel with the arguments of one launch.
#[derive(Clone, Debug)]
pub(super) struct Kernel {
    pub(super) source: KernelSource,
    pub(super) kernarg: Vec<u8>,
    pub(super) patches: Vec<ArgumentPatch>,
}

/// The functions and fields that a body uses, for one piece of work.
pub(super) struct Writer<'w> {
    work: &'w Work,
    /// Offsets of elements take 64 bits.
    is_wide: bool,
    arguments: Arguments,
    functions: String,
}

/// Names of the offsets that a function moves, by operand of the nest.
#[derive(Clone, Copy)]
struct Moves {
    x: bool,
    y: bool,
    out: bool,
}

impl<'w> Writer<'w> {
    pub(super) fn new(work: &'w Work) -> Self {
        let operands = work.nest.bases.len();
        let is_wide = (0..operands).any(|operand| work.nest.reach(operand, DEPTH_OVERSHOOT) > i64::from(i32::MAX));
        let mut arguments = Arguments::default();
        if let Some(x) = work.sum.x() {
            arguments.pointer("x", &format!("const {}", x.element.stored()), x.tensor);
        }
        if let Some(y) = work.sum.y() {
            arguments.pointer("y", &format!("const {}", y.element.stored()), y.tensor);
        }
        arguments.pointer("out", work.out.element.stored(), work.out.tensor);
        work.epilogue.declare(&mut arguments);
        let mut writer = Self { work, is_wide, arguments, functions: String::new() };
        writer.start();
        writer
    }

    /// A field of its own for a body.
    pub(super) fn int(&mut self, name: &str, value: i64) {
        self.arguments.int(name, value);
    }

    /// As [`int`](Self::int), for a number of elements.
    pub(super) fn index(&mut self, name: &str, value: i64) {
        self.arguments.index(name, value, self.is_wide);
    }

    /// As [`int`](Self::int), for a number to divide by.
    pub(super) fn divisor(&mut self, name: &str, value: i64) {
        self.arguments.divisor(name, value);
    }

    /// A number as it stands in the text: 0 and 1 themselves, so that the compiler knows them; anything else is a field.
    fn number(&mut self, name: &str, value: i64) -> Option<String> {
        match value {
            0 => None,
            1 => Some(String::new()),
            value => {
                self.index(name, value);
                Some(format!(" * a.{name}"))
            }
        }
    }

    /// `hp_start`: where everything lies at the first position.
    fn start(&mut self) {
        let mut body = String::new();
        let bases = self.work.nest.bases.clone();
        for (operand, base) in bases.into_iter().enumerate() {
            let (name, variable) = match operand {
                X => ("x_base".to_owned(), "x".to_owned()),
                Y => ("y_base".to_owned(), "y".to_owned()),
                n => (format!("o{}_base", n - OUT), format!("o[{}]", n - OUT)),
            };
            if base == 0 {
                let _ = writeln!(body, "    {variable} = 0;");
            } else {
                self.index(&name, base);
                let _ = writeln!(body, "    {variable} = a.{name};");
            }
        }
        for (w, window) in self.work.nest.windows.clone().into_iter().enumerate() {
            self.int(&format!("window{w}_start"), window.start);
            self.int(&format!("window{w}_size"), window.size);
            let _ = writeln!(body, "    at[{w}] = a.window{w}_start;");
        }
        let _ = write!(
            self.functions,
            "DEV void hp_start(const Args& a, IDX& x, IDX& y, IDX* o, int* at)\n{{\n    (void)a, (void)x, (void)y, (void)o, (void)at;\n{body}}}\n"
        );
        let inside: Vec<String> =
            (0..self.work.nest.windows.len()).map(|w| format!("(unsigned)at[{w}] < (unsigned)a.window{w}_size")).collect();
        let inside = if inside.is_empty() { "true".to_owned() } else { inside.join(" && ") };
        let _ = write!(
            self.functions,
            "DEV bool hp_inside(const Args& a, const int* at)\n{{\n    (void)a, (void)at;\n    return {inside};\n}}\n"
        );
    }

    /// Statements that take a position of some roles apart. The names of fields are those of role and loop, so that several functions
    /// share them.
    fn digits(&mut self, roles: &[Role], moves: Moves, declared: &mut Vec<String>) -> String {
        let loops: Vec<(String, Loop)> = roles
            .iter()
            .flat_map(|&role| self.work.nest.of(role).enumerate().map(move |(i, l)| (format!("{}{i}", prefix(role)), l.clone())))
            .collect();
        let mut body = String::new();
        for (at, (name, l)) in loops.iter().enumerate() {
            if at + 1 < loops.len() {
                let field = format!("{name}_div");
                if !declared.contains(&field) {
                    self.divisor(&field, l.extent);
                    declared.push(field.clone());
                }
                let _ = writeln!(body, "    const int {name} = hp_digit(i, a.{field});");
            } else {
                let _ = writeln!(body, "    const int {name} = i;");
            }
            let operands = l.strides.iter().enumerate().filter(|&(operand, _)| match operand {
                X => moves.x,
                Y => moves.y,
                _ => moves.out,
            });
            for (operand, &stride) in operands {
                let (field, variable) = match operand {
                    X => (format!("{name}_x"), "x".to_owned()),
                    Y => (format!("{name}_y"), "y".to_owned()),
                    n => (format!("{name}_o{}", n - OUT), format!("o[{}]", n - OUT)),
                };
                if let Some(factor) = self.number(&field, stride) {
                    let _ = writeln!(body, "    {variable} += (IDX){name}{factor};");
                }
            }
            if let Some((window, step)) = l.window.filter(|_| moves.x) {
                let factor = if step == 1 {
                    String::new()
                } else {
                    self.int(&format!("{name}_step"), step);
                    format!(" * a.{name}_step")
                };
                let _ = writeln!(body, "    at[{window}] += {name}{factor};");
            }
        }
        body
    }

    fn function(&mut self, signature: &str, unused: &str, body: &str) {
        let _ = write!(self.functions, "DEV void {signature}\n{{\n    {unused}\n{body}}}\n");
    }

    /// `hp_position`: a position among all results.
    pub(super) fn position(&mut self) {
        let moves = Moves { x: true, y: true, out: true };
        let body = self.digits(&[Role::M, Role::N, Role::Batch], moves, &mut Vec::new());
        self.function(
            "hp_position(const Args& a, int i, IDX& x, IDX& y, IDX* o, int* at)",
            "(void)a, (void)i, (void)x, (void)y, (void)o, (void)at;",
            &body,
        );
    }

    /// `hp_k_x` and `hp_k_y`: a position of the depth.
    pub(super) fn depth(&mut self) {
        let mut declared = Vec::new();
        let body = self.digits(&[Role::K], Moves { x: true, y: false, out: false }, &mut declared);
        self.function("hp_k_x(const Args& a, int i, IDX& x, int* at)", "(void)a, (void)i, (void)x, (void)at;", &body);
        let body = self.digits(&[Role::K], Moves { x: false, y: true, out: false }, &mut declared);
        self.function("hp_k_y(const Args& a, int i, IDX& y)", "(void)a, (void)i, (void)y;", &body);
    }

    /// `hp_m_x`, `hp_n_y`, `hp_m_out`, `hp_n_out` and `hp_batch`: rows, columns and products by themselves.
    pub(super) fn rows_and_columns(&mut self) {
        let mut declared = Vec::new();
        let (x, y, out) =
            (Moves { x: true, y: false, out: false }, Moves { x: false, y: true, out: false }, Moves { x: false, y: false, out: true });
        let body = self.digits(&[Role::M], x, &mut declared);
        self.function("hp_m_x(const Args& a, int i, IDX& x, int* at)", "(void)a, (void)i, (void)x, (void)at;", &body);
        let body = self.digits(&[Role::M], out, &mut declared);
        self.function("hp_m_out(const Args& a, int i, IDX* o)", "(void)a, (void)i, (void)o;", &body);
        let body = self.digits(&[Role::N], y, &mut declared);
        self.function("hp_n_y(const Args& a, int i, IDX& y)", "(void)a, (void)i, (void)y;", &body);
        let body = self.digits(&[Role::N], out, &mut declared);
        self.function("hp_n_out(const Args& a, int i, IDX* o)", "(void)a, (void)i, (void)o;", &body);
        let body = self.digits(&[Role::Batch], Moves { x: true, y: true, out: true }, &mut declared);
        self.function("hp_batch(const Args& a, int i, IDX& x, IDX& y, IDX* o)", "(void)a, (void)i, (void)x, (void)y, (void)o;", &body);
    }

    /// `hp_sum`: loops over the whole depth. Extents are constants of the text where the depth is at most `unrolled`.
    pub(super) fn loops(&mut self, unrolled: i64) {
        let is_short = self.work.nest.extent(Role::K) <= unrolled;
        let loops: Vec<(usize, Loop)> = self.work.nest.of(Role::K).cloned().enumerate().collect();
        let windows = self.work.nest.windows.len();
        // Loop whose digit is the last to move each window, counted from the outside; none for windows that the depth does not move.
        let last_of = |w: usize| loops.iter().find(|(_, l)| l.window.is_some_and(|(at, _)| at == w)).map(|&(n, _)| n);
        let mut body = String::from("    ACC sum = hp_initial();\n");
        let mut closing = String::new();
        let check = |body: &mut String, closing: &mut String, w: usize| {
            let _ = writeln!(body, "    if ((unsigned)at{w} < (unsigned)a.window{w}_size) {{");
            closing.push('}');
        };
        for w in 0..windows {
            let _ = writeln!(body, "    const int at{w} = at[{w}];");
        }
        for w in (0..windows).filter(|&w| last_of(w).is_none()) {
            check(&mut body, &mut closing, w);
        }
        for (n, l) in loops.iter().rev() {
            let extent = if is_short {
                l.extent.to_string()
            } else {
                self.int(&format!("k{n}_extent"), l.extent);
                format!("a.k{n}_extent")
            };
            let unroll = if is_short { "UNROLL " } else { "" };
            let _ = writeln!(body, "    const IDX x_{n} = x, y_{n} = y;");
            let window = l.window;
            if let Some((w, _)) = window {
                let _ = writeln!(body, "    const int at{w}_{n} = at{w};");
            }
            let _ = writeln!(body, "    {unroll}for (int k{n} = 0; k{n} < {extent}; ++k{n}) {{");
            closing.push('}');
            for (operand, variable) in [(X, "x"), (Y, "y")] {
                let moved = match self.number(&format!("k{n}_{variable}"), l.strides[operand]) {
                    Some(factor) => format!(" + (IDX)k{n}{factor}"),
                    None => String::new(),
                };
                let _ = writeln!(body, "    const IDX {variable} = {variable}_{n}{moved};");
            }
            if let Some((w, step)) = window {
                let factor = if step == 1 {
                    String::new()
                } else {
                    self.int(&format!("k{n}_step"), step);
                    format!(" * a.k{n}_step")
                };
                let _ = writeln!(body, "    const int at{w} = at{w}_{n} + k{n}{factor};");
                if last_of(w) == Some(*n) {
                    check(&mut body, &mut closing, w);
                }
            }
            let _ = writeln!(body, "    (void)x, (void)y;");
        }
        let _ = writeln!(body, "    sum = hp_step(sum, HP_LOAD_X(a.x, x), HP_LOAD_Y(a.y, y));\n    {closing}\n    return sum;");
        let _ = write!(
            self.functions,
            "DEV ACC hp_sum(const Args& a, IDX x, IDX y, const int* at)\n{{\n    (void)a, (void)x, (void)y, (void)at;\n{body}}}\n"
        );
    }

    /// The kernel: its name is made of its kind and a hash of its text.
    pub(super) fn finish(self, body: &Body) -> Kernel {
        let Self { work, is_wide, arguments, functions } = self;
        let mut text = String::with_capacity(32 << 10);
        text.push_str(PRELUDE);
        let _ = write!(text, "\ntypedef {} IDX;\n", if is_wide { "long long" } else { "int" });
        text.push_str(ELEMENTS);
        if work.epilogue.needs_functions() {
            text.push_str(MATH);
            text.push_str(POINTWISE);
        }
        let _ = writeln!(text, "\ntypedef {} ACC;", work.number.text());
        let outs = work.nest.bases.len() - OUT;
        let windows = work.nest.windows.len();
        let _ = write!(text, "#define HP_OUT {outs}\n#define HP_WINDOWS {windows}\n#define HP_AT {}\n", windows.max(1));
        for (name, operand) in [("HP_LOAD_X", work.sum.x()), ("HP_LOAD_Y", work.sum.y())] {
            match operand {
                Some(operand) => {
                    let _ = writeln!(text, "#define {name} hp_load_{}<ACC>", operand.element.suffix());
                }
                None => {
                    let _ = writeln!(text, "#define {name}(p, i) ((ACC)0)");
                }
            }
        }
        for (name, value) in &body.defines {
            let _ = writeln!(text, "#define {name} {value}");
        }
        text.push_str(&arguments.text());
        text.push_str(&sums(work.number, &work.sum));
        text.push_str(&functions);
        text.push_str(&work.epilogue.function(work.number, work.out.element, &work.sum));
        text.push_str(body.text);

        let hash = blake3::hash(text.as_bytes()).to_hex();
        let name = format!("{}_{}", body.kind, &hash[..16]);
        let text = format!("#define HP_NAME {name}\n{text}");
        let (kernarg, patches) = arguments.finish();
        let source = KernelSource { name, text, kernarg_size: kernarg.len() as u32, block: body.block };
        Kernel { source, kernarg, patches }
    }
}

const fn prefix(role: Role) -> &'static str {
    match role {
        Role::M => "m",
        Role::N => "n",
        Role::Batch => "b",
        Role::K => "k",
    }
}

/// `hp_initial`, `hp_step` and `hp_combine`: the sum over no term, with one more term, and over two parts.
fn sums(number: Number, sum: &Sum) -> String {
    let (initial, step, combine) = match sum {
        Sum::Products { .. } if number == Number::I32 => {
            ("0", "(int)((unsigned)s + (unsigned)(x * y))", "(int)((unsigned)s + (unsigned)t)")
        }
        Sum::Products { .. } => ("0", "hp_fma(x, y, s)", "s + t"),
        Sum::Nothing => ("0", "s", "s"),
        // Parts of a split product, which wrap as it does.
        Sum::Elements { mode: ReductionMode::Add, .. } if number == Number::I32 => {
            ("0", "(int)((unsigned)s + (unsigned)x)", "(int)((unsigned)s + (unsigned)t)")
        }
        Sum::Elements { mode, .. } => match mode {
            ReductionMode::Add | ReductionMode::Avg => ("0", "s + x", "s + t"),
            ReductionMode::Norm1 => ("0", "s + hp_abs(x)", "s + t"),
            ReductionMode::Norm2 => ("0", "hp_fma(x, x, s)", "s + t"),
            ReductionMode::Mul => ("1", "s * x", "s * t"),
            ReductionMode::MulNoZeros => ("1", "x == 0 ? s : s * x", "s * t"),
            // A comparison with NaN is false: the second test lets it through.
            ReductionMode::Min => ("HP_INFINITY", "x < s || x != x ? x : s", "t < s || t != t ? t : s"),
            ReductionMode::Max => ("-HP_INFINITY", "x > s || x != x ? x : s", "t > s || t != t ? t : s"),
            ReductionMode::Amax => ("0", "hp_abs(x) > s || x != x ? hp_abs(x) : s", "t > s || t != t ? t : s"),
            _ => ("0", "s", "s"),
        },
    };
    format!(
        "#define HP_INFINITY ((ACC)hp_float(0x7f800000u))\n\
         DEV ACC hp_initial() {{ return {initial}; }}\n\
         DEV ACC hp_step(ACC s, ACC x, ACC y) {{ (void)x, (void)y; return {step}; }}\n\
         DEV ACC hp_combine(ACC s, ACC t) {{ (void)t; return {combine}; }}\n"
    )
}
