//! A graph as Graphviz text.

use super::{Family, TensorKind};
use crate::output;
use hipplan::{FieldRole, VerifiedGraph};
use std::fmt::Write;

/// The graph in the DOT language: operations are boxes, tensors ellipses, virtual tensors dashed.
pub(crate) fn write(graph: &VerifiedGraph<'_>, title: &str) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    _ = write_graph(&mut out, graph, title);
    out
}

fn write_graph(out: &mut String, graph: &VerifiedGraph<'_>, title: &str) -> std::fmt::Result {
    writeln!(out, "digraph {} {{", quoted(title))?;
    writeln!(out, "  label={}; labelloc=t; fontname=\"Helvetica\";", quoted(title))?;
    out.push_str("  node [fontname=\"Helvetica\", fontsize=11]; edge [fontname=\"Helvetica\", fontsize=9];\n");
    for (ix, t) in graph.tensor_ixs().zip(graph.tensors()) {
        let lines = [vec![super::tensor_name(t)], super::tensor_lines(graph, t)].concat();
        let style = match TensorKind::of(t) {
            TensorKind::Device => "solid",
            TensorKind::Virtual => "dashed",
            TensorKind::Scalar => "filled",
            TensorKind::RuntimeScalar => "filled,bold",
        };
        writeln!(out, "  t{} [shape=ellipse, style=\"{style}\", label={}];", ix.index(), label(&lines))?;
    }
    for node in graph.nodes() {
        let mut lines = vec![super::operation(graph, node)];
        let name = output::name(graph.node_name(node));
        lines.extend((!name.is_empty()).then_some(name));
        lines.extend(super::attributes(graph, node));
        lines.push(format!("compute {}", graph.compute_type(node)));
        let colour = fill(Family::of(graph.kind(node)));
        writeln!(out, "  n{} [shape=box, style=\"filled,rounded\", fillcolor=\"{colour}\", label={}];", node.index(), label(&lines))?;
        for (tensor, slot) in super::ends(graph, node, FieldRole::Input) {
            writeln!(out, "  t{} -> n{} [label={}];", tensor.index(), node.index(), quoted(&slot))?;
        }
        for (tensor, slot) in super::ends(graph, node, FieldRole::Output) {
            writeln!(out, "  n{} -> t{} [label={}];", node.index(), tensor.index(), quoted(&slot))?;
        }
    }
    out.push_str("}\n");
    Ok(())
}

const fn fill(family: Family) -> &'static str {
    match family {
        Family::Convolution => "#ddf0ff",
        Family::Matmul => "#ece4ff",
        Family::Pointwise => "#dcf7e3",
        Family::Norm => "#ffeedd",
        Family::Attention => "#ffe6f3",
        Family::Reduction => "#fff6c9",
        Family::BlockScale => "#ffe7e4",
        Family::Experts => "#daf5f3",
        Family::Custom => "#e9edf1",
    }
}

/// Lines one below the other, as one quoted label.
fn label(lines: &[String]) -> String {
    let lines: Vec<String> = lines.iter().map(|line| escaped(line)).collect();
    format!("\"{}\"", lines.join("\\n"))
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", escaped(text))
}

/// Inside quotes only quotes and backslashes mean something; a line break would be kept, so there is none.
fn escaped(text: &str) -> String {
    output::name(text).replace('\\', "\\\\").replace('"', "\\\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_and_backslashes_stay_inside() {
        assert_eq!(quoted(r#"a"b\"#), r#""a\"b\\""#);
        assert_eq!(quoted("a\nb"), r#""a\\u{a}b""#);
        assert_eq!(label(&["x".into(), "\"".into()]), r#""x\n\"""#);
    }
}
