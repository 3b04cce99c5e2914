//! The rules of the operations (G6): what each demands of its operands and attributes.
//!
//! `table.rs` lists the rules, operation by operation; this module reads the table. A rule names the error that breaking it is,
//! and a [`Check`]. Checks are few and general; what no general check says is a function of `named.rs`. Nothing is allocated
//! while rules hold.
//!
//! A rule is in the table only where it is certain: the formula of the operation makes no sense without it, the description of
//! hipDNN's format states it, or hipDNN itself refuses. Where hipDNN's own versions differ, the widest holds.

mod named;
mod node;
mod table;

use super::view::VerifiedGraph;
use crate::error::{Breach, Found, RuleError};
use crate::ops::{Op, OpKind};
use crate::{DataType, GraphError};
use node::Node;

/// A field of an operation, by its position in [`OpKind::fields`].
type Slot = u8;

/// The slot of the field with this name. Used in constants only: a name that the operation lacks is a compile error.
const fn slot(kind: OpKind, name: &str) -> Slot {
    let (mut fields, mut at) = (kind.fields(), 0_u8);
    while let [field, rest @ ..] = fields {
        if same_text(field.name.as_bytes(), name.as_bytes()) {
            return at;
        }
        (fields, at) = (rest, at.saturating_add(1));
    }
    assert!(name.is_empty(), "a rule names a field that its operation does not have");
    at
}

const fn same_text(mut a: &[u8], mut b: &[u8]) -> bool {
    loop {
        match (a, b) {
            ([], []) => return true,
            ([x, rest_a @ ..], [y, rest_b @ ..]) if *x == *y => (a, b) = (rest_a, rest_b),
            _ => return false,
        }
    }
}

/// What a rule demands. Rules about an operand that is absent hold.
enum Check {
    /// The rank is in this range, both ends included.
    Rank(Slot, usize, usize),
    /// The first has the rank of the second.
    SameRank(Slot, Slot),
    /// The first has the dims of the second.
    SameDims(Slot, Slot),
    /// A dimension of the first equals one of the second. Negative axes count from the end.
    Dim(Slot, i8, Slot, i8),
    /// A dimension is this.
    DimIs(Slot, i8, i64),
    /// A dimension of the first is a multiple of one of the second.
    Multiple(Slot, i8, Slot, i8),
    /// The first broadcasts to the second: aligned at the right, each dim is 1 or the same.
    Broadcast(Slot, Slot),
    /// The elements of the first are as many as the leading dims of the second, this many of them, multiply to.
    Count(Slot, Slot, usize),
    /// A host scalar.
    Scalar(Slot),
    /// Of an integer type.
    Integer(Slot),
    /// All are there or none is.
    Together([Slot; 4]),
    /// Where the first is there, the second is too.
    Needs(Slot, Slot),
    /// Is there.
    Present(Slot),
    /// An attribute has been stated.
    Stated(&'static str, fn(&Op<'_>) -> bool),
    /// A list has one entry per spatial dimension of the operand: its rank less 2.
    Spatial(List, Slot),
    /// No entry of a list is below this.
    Least(List, i64),
    /// An attribute that is there is not below this.
    AtLeast(&'static str, fn(&Op<'_>) -> Option<i64>, i64),
    /// What only this operation has.
    Named(fn(&Node<'_, '_>, [Slot; 4]) -> Verdict, [Slot; 4]),
}

/// A list among the attributes, with its name.
#[derive(Clone, Copy)]
struct List(&'static str, for<'a> fn(&Op<'a>) -> &'a [i64]);

/// A rule of an operation.
struct Rule {
    error: fn(Breach) -> RuleError,
    check: Check,
    /// The rule holds for nodes of which this is true.
    only_if: Option<fn(&Node<'_, '_>) -> bool>,
}

/// How a rule is broken: the field at fault, what stands there, what should. Made only then.
struct Fault {
    field: &'static str,
    slot: Option<Slot>,
    found: Found,
    expected: String,
}

type Verdict = Result<(), Box<Fault>>;

fn fault(node: &Node<'_, '_>, slot: Slot, found: Found, expected: String) -> Verdict {
    Err(Box::new(Fault { field: node.name(slot), slot: Some(slot), found, expected }))
}

fn attribute_fault(field: &'static str, found: Found, expected: String) -> Verdict {
    Err(Box::new(Fault { field, slot: None, found, expected }))
}

/// Checks the rules of every node.
pub(super) fn check(graph: &VerifiedGraph<'_>) -> Result<(), GraphError> {
    for ix in graph.nodes() {
        let node = Node::new(graph, ix);
        for rule in table::rules(node.kind).iter().copied().flatten() {
            if rule.only_if.is_none_or(|holds| holds(&node))
                && let Err(fault) = rule.check.of(&node)
            {
                return Err(broken(&node, rule, *fault).into());
            }
        }
    }
    Ok(())
}

#[cold]
fn broken(node: &Node<'_, '_>, rule: &Rule, fault: Fault) -> RuleError {
    let Fault { field, slot, found, expected } = fault;
    let tensor = slot.and_then(|slot| node.ix(slot)).map(|ix| node.graph.tensor_label(ix));
    (rule.error)(Breach { node: node.graph.node_label(node.ix), field, tensor, found, expected: expected.into() })
}

/// The dim at an axis, which counts from the end where it is negative, and the axis from the start.
fn dim_at(dims: &[i64], axis: i8) -> Option<(usize, i64)> {
    let axis = match usize::try_from(axis) {
        Ok(axis) => axis,
        Err(_) => dims.len().checked_sub(usize::from(axis.unsigned_abs()))?,
    };
    dims.get(axis).map(|&dim| (axis, dim))
}

/// Whether dims broadcast to `to`: aligned at the right, each is 1 or the same.
fn broadcasts(dims: &[i64], to: &[i64]) -> bool {
    dims.len() <= to.len() && dims.iter().rev().zip(to.iter().rev()).all(|(&d, &t)| d == 1 || d == t)
}

/// The product of dims, which are positive.
fn product(dims: &[i64]) -> u64 {
    dims.iter().fold(1, |n: u64, &d| n.saturating_mul(d.unsigned_abs()))
}

const fn is_integer(dtype: DataType) -> bool {
    matches!(dtype, DataType::UInt8 | DataType::Int8 | DataType::Int32 | DataType::Int64)
}

impl Check {
    fn of(&self, node: &Node<'_, '_>) -> Verdict {
        match *self {
            Self::Rank(a, least, most) => {
                let Some(dims) = node.dims(a) else { return Ok(()) };
                if (least..=most).contains(&dims.len()) {
                    return Ok(());
                }
                let expected = match most {
                    usize::MAX => format!("at least {least}"),
                    _ if least == most => least.to_string(),
                    _ => format!("{least} to {most}"),
                };
                fault(node, a, Found::Rank(dims.len()), expected)
            }
            Self::SameRank(a, b) => {
                let Some((x, y)) = node.pair(a, b) else { return Ok(()) };
                if x.len() == y.len() {
                    return Ok(());
                }
                fault(node, a, Found::Rank(x.len()), format!("{}, the rank of {}", y.len(), node.name(b)))
            }
            Self::SameDims(a, b) => {
                let Some((x, y)) = node.pair(a, b) else { return Ok(()) };
                if x == y {
                    return Ok(());
                }
                fault(node, a, Found::Dims(x.into()), format!("{y:?}, the dims of {}", node.name(b)))
            }
            Self::Dim(a, i, b, j) => {
                let Some((x, y)) = node.pair(a, b) else { return Ok(()) };
                match (dim_at(x, i), dim_at(y, j)) {
                    (Some((axis, size)), Some((from, expected))) if size != expected => {
                        fault(node, a, Found::Dim { axis, size }, format!("{expected}, {}.dims[{from}]", node.name(b)))
                    }
                    _ => Ok(()),
                }
            }
            Self::DimIs(a, i, expected) => match node.dims(a).and_then(|dims| dim_at(dims, i)) {
                Some((axis, size)) if size != expected => fault(node, a, Found::Dim { axis, size }, expected.to_string()),
                _ => Ok(()),
            },
            Self::Multiple(a, i, b, j) => {
                let Some((x, y)) = node.pair(a, b) else { return Ok(()) };
                match (dim_at(x, i), dim_at(y, j)) {
                    (Some((axis, size)), Some((from, of))) if size.checked_rem(of) != Some(0) => {
                        fault(node, a, Found::Dim { axis, size }, format!("a multiple of {of}, {}.dims[{from}]", node.name(b)))
                    }
                    _ => Ok(()),
                }
            }
            Self::Broadcast(a, b) => {
                let Some((x, y)) = node.pair(a, b) else { return Ok(()) };
                if broadcasts(x, y) {
                    return Ok(());
                }
                fault(node, a, Found::Dims(x.into()), format!("dims that broadcast to {y:?}, the dims of {}", node.name(b)))
            }
            Self::Count(a, b, leading) => {
                let Some((x, y)) = node.pair(a, b) else { return Ok(()) };
                let y = y.get(..leading).unwrap_or(y);
                let (found, expected) = (product(x), product(y));
                if found == expected {
                    return Ok(());
                }
                let of = if leading == 1 { "the batch" } else { "the product of the leading dims" };
                fault(node, a, Found::Elements(found), format!("{expected}, {of} of {}", node.name(b)))
            }
            Self::Scalar(a) => match node.tensor(a) {
                Some(tensor) if !tensor.is_by_value() => {
                    fault(node, a, Found::Ordinary, "a host scalar (constant, runtime, or runtime with default)".into())
                }
                _ => Ok(()),
            },
            Self::Integer(a) => match node.tensor(a) {
                Some(tensor) if !is_integer(tensor.dtype) => {
                    fault(node, a, Found::Type(tensor.dtype), "int32 or another integer type".into())
                }
                _ => Ok(()),
            },
            Self::Together(slots) => {
                let Some(&there) = slots.iter().find(|&&s| node.has(s)) else { return Ok(()) };
                slots.iter().try_for_each(|&s| require(node, s, || format!("a tensor, because {} is there", node.name(there))))
            }
            Self::Needs(a, b) => {
                if node.has(a) {
                    require(node, b, || format!("a tensor, because {} is there", node.name(a)))
                } else {
                    Ok(())
                }
            }
            Self::Present(a) => require(node, a, || "a tensor".into()),
            Self::Stated(field, stated) => match node.op() {
                Some(op) if !stated(op) => attribute_fault(field, Found::Value("not set".into()), "one of its values".into()),
                _ => Ok(()),
            },
            Self::Spatial(List(field, read), a) => {
                let (Some(dims), Some(op)) = (node.dims(a), node.op()) else { return Ok(()) };
                let (list, spatial) = (read(op), dims.len().saturating_sub(2));
                if list.len() == spatial {
                    return Ok(());
                }
                attribute_fault(field, Found::Length(list.len()), format!("{spatial}, one per spatial dimension"))
            }
            Self::Least(List(field, read), least) => {
                let Some(op) = node.op() else { return Ok(()) };
                match read(op).iter().enumerate().find(|&(_, &v)| v < least) {
                    Some((index, &value)) => attribute_fault(field, Found::Entry { index, value }, format!("at least {least}")),
                    None => Ok(()),
                }
            }
            Self::AtLeast(field, read, least) => match node.op().and_then(read) {
                Some(value) if value < least => attribute_fault(field, Found::Value(value.to_string().into()), format!("at least {least}")),
                _ => Ok(()),
            },
            Self::Named(check, slots) => check(node, slots),
        }
    }
}

/// The operand is there.
fn require(node: &Node<'_, '_>, slot: Slot, expected: impl FnOnce() -> String) -> Verdict {
    if node.has(slot) { Ok(()) } else { fault(node, slot, Found::Absent, expected()) }
}
