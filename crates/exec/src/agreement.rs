//! Whether a plan's bindings are those of the graph that it is bound by.

use crate::ExecError;
use hipplan_serialize::plan::{ArchivedPlanMetaV1, BindingKind, BindingRole, PayloadView};
use hipplan_serialize::{FieldRole, Uid, VerifiedGraph};

/// Compares bindings and baked values with the graph: which slots are host memory, and how large the others are, is not for a file to
/// decide where the graph is at hand (R16 §7.3). `uids` are the graph's, by canonical ordinal.
///
/// # Errors
/// The first binding that disagrees.
pub(crate) fn check(
    meta: &ArchivedPlanMetaV1,
    payload: &PayloadView<'_>,
    graph: &VerifiedGraph<'_>,
    uids: &[Uid],
) -> Result<(), ExecError> {
    let mut baked = payload.baked().peekable();
    let mut bindings = meta.bindings.iter();
    let mut written = vec![false; graph.tensors().len()];
    for operand in graph.all_operands().iter().filter(|o| o.role == FieldRole::Output) {
        written[operand.tensor.index()] = true;
    }
    for (&uid, ordinal) in uids.iter().zip(0_u32..) {
        let Some(ix) = graph.find(uid).filter(|&ix| !graph.tensor(ix).is_virtual) else { continue };
        let tensor = graph.tensor(ix);
        let fail = |field, found: String, expected: String| ExecError::BindingDisagrees {
            tensor: graph.tensor_label(ix).to_string(),
            field,
            found,
            expected,
        };
        let Some(b) = bindings.next().filter(|b| b.ordinal == ordinal) else {
            return Err(fail("ordinal", "another".to_owned(), ordinal.to_string()));
        };
        let kind = BindingKind::of_state(tensor.is_runtime, tensor.value.is_some());
        if b.kind() != kind {
            return Err(fail("kind", b.kind().name().to_owned(), kind.name().to_owned()));
        }
        let role = if written[ix.index()] { BindingRole::Output } else { BindingRole::Input };
        if b.role() != role {
            return Err(fail("role", format!("{:?}", b.role()), format!("{role:?}")));
        }
        if b.dtype() != tensor.dtype {
            return Err(fail("data type", b.dtype().to_string(), tensor.dtype.to_string()));
        }
        // The stride of a dim of size 1 addresses nothing and is normalised in a plan.
        let addressed = |(dim, stride): (i64, i64)| if dim == 1 { (1, 0) } else { (dim, stride) };
        let found: Vec<_> = b.dims.iter().zip(b.strides.iter()).map(|(d, s)| addressed((d.to_native(), s.to_native()))).collect();
        let expected: Vec<_> = tensor.dims.iter().copied().zip(tensor.strides.iter().copied()).map(addressed).collect();
        if found != expected || b.dims.len() != b.strides.len() {
            return Err(fail("(dim, stride) list", format!("{found:?}"), format!("{expected:?}")));
        }
        let value = baked.next_if(|baked| baked.uid == i64::from(ordinal)).map(|baked| baked.value);
        if value != tensor.value {
            return Err(fail("baked value", format!("{value:?}"), format!("{:?}", tensor.value)));
        }
    }
    match bindings.next() {
        None => Ok(()),
        Some(extra) => Err(ExecError::BindingDisagrees {
            tensor: format!("a tensor at ordinal {}", extra.ordinal),
            field: "place in the graph",
            found: "stated".to_owned(),
            expected: "none".to_owned(),
        }),
    }
}
