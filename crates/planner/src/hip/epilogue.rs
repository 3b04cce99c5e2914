//! What becomes of a sum before it is stored: a chain of pointwise operations as C++ text.
//!
//! Constants and attributes are literals of the text, runtime scalars are fields of the argument struct (R16 §4.6), tensors are read where
//! the result is written. A value that is handed from one operation to the next is rounded to the type of the virtual tensor between them,
//! as the unfused operations would.

use super::arguments::Arguments;
use super::pointwise;
use super::work::{Element, Number, Operand, Sum};
use hipplan_exec::hip::ScalarType;
use hipplan_serialize::{ReductionMode, ops};
use std::fmt::Write;

/// An operand of an operation in the chain.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    /// The value that the chain carries.
    Carried,
    /// A tensor in device memory, and how it is spread over the result.
    Tensor(Operand, Spread),
    /// A runtime scalar: position among the program's tensors, and whether `float` cannot hold it.
    Scalar { tensor: u32, is_wide: bool },
    /// A constant.
    Constant(f64),
    /// The result's index along a dimension.
    Index(usize),
}

/// How a tensor of fewer dimensions is spread over the result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Spread {
    /// Right-aligned, extents of 1 repeated.
    Broadcast,
    /// A vector along the second dimension: the parameters of a normalisation.
    Channel,
}

/// What has an offset of its own beside the result's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Addressed {
    /// A tensor in device memory.
    Tensor(Operand, Spread),
    /// No memory: the offset itself, which is the result's index along a dimension.
    Index(usize),
}

/// A chain in the making, and made.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Epilogue {
    /// What it reads, each once; they are operands of the nest behind the result.
    addressed: Vec<Addressed>,
    scalars: Vec<(u32, ScalarType)>,
    statements: Vec<Statement>,
    needs_functions: bool,
}

#[derive(Clone, Debug, PartialEq)]
struct Statement {
    /// The type that it computes in.
    number: Number,
    /// The C++ expression; `@` stands for the carried value in that type.
    expression: String,
    /// The type of the virtual tensor that holds the result; none behind the last statement.
    rounded: Option<Element>,
}

impl Epilogue {
    /// What it reads, in the order of the offsets.
    pub(super) fn addressed(&self) -> &[Addressed] {
        &self.addressed
    }

    /// Position of what is read, and a new one if it is new.
    fn address(&mut self, what: Addressed) -> usize {
        self.addressed.iter().position(|a| *a == what).unwrap_or_else(|| {
            self.addressed.push(what);
            self.addressed.len() - 1
        })
    }

    /// Whether it needs `math.h` and `pointwise.h`.
    pub(super) fn needs_functions(&self) -> bool {
        self.needs_functions
    }

    /// Text of an operand in a computing type.
    pub(super) fn operand(&mut self, value: &Value, number: Number) -> String {
        let element = number.text();
        match value {
            Value::Carried => "@".to_owned(),
            Value::Tensor(operand, spread) => {
                let at = self.address(Addressed::Tensor(*operand, *spread));
                format!("hp_load_{}<{element}>(a.e{at}, o[{}])", operand.element.suffix(), at + 1)
            }
            Value::Scalar { tensor, is_wide } => {
                let scalar = (*tensor, if *is_wide { ScalarType::F64 } else { ScalarType::F32 });
                let known = self.scalars.iter().position(|s| *s == scalar);
                let at = known.unwrap_or_else(|| {
                    self.scalars.push(scalar);
                    self.scalars.len() - 1
                });
                format!("({element})a.s{at}")
            }
            Value::Constant(value) => {
                // Infinities and NaN are functions.
                self.needs_functions |= !value.is_finite();
                pointwise::literal(*value, element)
            }
            Value::Index(dim) => {
                self.needs_functions = true;
                format!("hp_gen_index<{element}>((int)o[{}])", self.address(Addressed::Index(*dim)) + 1)
            }
        }
    }

    /// Adds a pointwise operation. `rounded` is the type of its result where that is virtual.
    ///
    /// Returns whether kernels have the operation.
    pub(super) fn push(&mut self, op: &ops::Pointwise, values: &[Value], number: Number, rounded: Option<Element>) -> bool {
        let operands: Vec<String> = values.iter().map(|v| self.operand(v, number)).collect();
        let Some(expression) = pointwise::expression(op, &operands, number.text()) else { return false };
        self.needs_functions = true;
        self.statements.push(Statement { number, expression, rounded });
        true
    }

    /// Adds an expression over operands that were given their text by [`operand`](Self::operand).
    pub(super) fn push_text(&mut self, expression: String, number: Number, rounded: Option<Element>) {
        self.statements.push(Statement { number, expression, rounded });
    }

    /// Fields of the argument struct.
    pub(super) fn declare(&self, arguments: &mut Arguments) {
        for (at, addressed) in self.addressed.iter().enumerate() {
            let Addressed::Tensor(operand, _) = addressed else { continue };
            arguments.pointer(&format!("e{at}"), &format!("const {}", operand.element.stored()), operand.tensor);
        }
        for (at, &(tensor, scalar)) in self.scalars.iter().enumerate() {
            arguments.scalar(&format!("s{at}"), scalar, tensor);
        }
    }

    /// `hp_finish`: from a sum of type `ACC` to a stored element.
    pub(super) fn function(&self, number: Number, out: Element, sum: &Sum) -> String {
        let mut body = String::new();
        let (mut value, mut of) = match sum {
            Sum::Elements { mode: ReductionMode::Avg, count, .. } => {
                (format!("v / {}", pointwise::literal(*count as f64, number.text())), number)
            }
            Sum::Elements { mode: ReductionMode::Norm2, .. } => ("hp_sqrt(v)".to_owned(), number),
            _ => ("v".to_owned(), number),
        };
        for (n, statement) in self.statements.iter().enumerate() {
            let text = statement.number.text();
            let carried = if of == statement.number { format!("({value})") } else { format!("({text})({value})") };
            let expression = statement.expression.replace('@', &carried);
            // What float does not hold is carried on in double.
            let kept = if statement.rounded.is_some_and(Element::is_wide) { Number::F64 } else { statement.number };
            let rounded = match statement.rounded {
                Some(element) => format!("hp_round_{}<{}>({expression})", element.suffix(), kept.text()),
                None => expression,
            };
            let _ = writeln!(body, "    const {} t{n} = {rounded};", kept.text());
            (value, of) = (format!("t{n}"), kept);
        }
        let _ = writeln!(body, "    hp_store_{}<{}>(a.out, o[0], {value});", out.suffix(), of.text());
        format!("DEV void hp_finish(const Args& a, ACC v, const IDX* o)\n{{\n    (void)v;\n{body}}}\n")
    }
}
