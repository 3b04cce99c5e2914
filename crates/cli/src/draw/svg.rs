//! A picture as SVG: one file, no script, nothing fetched, colours for light and for dark.

use super::scene::{self, Anchor, Line, Look, Picture, Shape, Text, Type};
use super::{Caption, Family, TensorKind};
use hipplan::VerifiedGraph;
use std::fmt::Write;

/// The graph as SVG.
pub(crate) fn write(graph: &VerifiedGraph<'_>, caption: &Caption) -> String {
    let picture = scene::draw(graph, caption);
    let mut out = String::with_capacity(2048 + 400 * picture.shapes.len());
    // Writing to a string cannot fail.
    _ = write_picture(&mut out, &picture);
    out
}

/// Fill and stroke of a look, for light and for dark.
struct Colours {
    class: &'static str,
    light: [&'static str; 2],
    dark: [&'static str; 2],
}

const fn family(class: &'static str, light: [&'static str; 2], dark: [&'static str; 2]) -> Colours {
    Colours { class, light, dark }
}

const fn of_family(f: Family) -> Colours {
    match f {
        Family::Convolution => family("conv", ["#ddf0ff", "#1f7ae0"], ["#10305c", "#58a6ff"]),
        Family::Matmul => family("mm", ["#ece4ff", "#7b4ddb"], ["#2f1d5c", "#a98bf5"]),
        Family::Pointwise => family("pw", ["#dcf7e3", "#2a9a4b"], ["#12361f", "#4ac26b"]),
        Family::Norm => family("norm", ["#ffeedd", "#c4610c"], ["#43230a", "#e58a3c"]),
        Family::Attention => family("att", ["#ffe6f3", "#c03a8a"], ["#471335", "#e275ad"]),
        Family::Reduction => family("red", ["#fff6c9", "#97700a"], ["#3a2c05", "#d3a72c"]),
        Family::BlockScale => family("bs", ["#ffe7e4", "#cc3b34"], ["#491715", "#f0746c"]),
        Family::Experts => family("moe", ["#daf5f3", "#1a7d83"], ["#0c3538", "#45bfc7"]),
        Family::Custom => family("own", ["#e9edf1", "#59636e"], ["#262c33", "#959fa9"]),
    }
}

const FAMILIES: [Family; 9] = [
    Family::Convolution,
    Family::Matmul,
    Family::Pointwise,
    Family::Norm,
    Family::Attention,
    Family::Reduction,
    Family::BlockScale,
    Family::Experts,
    Family::Custom,
];

const fn tensor_class(kind: TensorKind) -> &'static str {
    match kind {
        TensorKind::Device => "t",
        TensorKind::Virtual => "t v",
        TensorKind::Scalar => "t k",
        TensorKind::RuntimeScalar => "t r",
    }
}

const fn text_class(set: Type) -> &'static str {
    match set {
        Type::Title => "title",
        Type::Caption => "cap",
        Type::Op => "op",
        Type::Name => "name",
        Type::Detail => "det",
        Type::Port => "port",
    }
}

fn write_picture(out: &mut String, picture: &Picture) -> std::fmt::Result {
    let Picture { width, height, shapes, lines, texts, title } = picture;
    let (w, h, title) = (width.ceil(), height.ceil(), escape(title));
    writeln!(
        out,
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {w} {h}" width="{w}" height="{h}" role="img" aria-label="{title}">"#
    )?;
    writeln!(out, "<title>{title}</title>")?;
    write_style(out, shapes)?;
    out.push_str(concat!(
        r#"<defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">"#,
        r#"<path class="arrow" d="M0 0.8L7.5 4L0 7.2Z"/></marker></defs>"#,
        "\n"
    ));
    writeln!(out, r#"<rect class="bg" width="{w}" height="{h}" rx="10"/>"#)?;
    for line in lines {
        write_line(out, line)?;
    }
    for shape in shapes {
        write_shape(out, shape)?;
    }
    for text in texts {
        write_text(out, text)?;
    }
    out.push_str("</svg>\n");
    Ok(())
}

/// Rules for the looks that are there, in plain selectors that every renderer knows; dark ones behind, where the reader prefers them.
fn write_style(out: &mut String, shapes: &[Shape]) -> std::fmt::Result {
    out.push_str("<style>\n");
    writeln!(out, "text{{font-family:Helvetica,Arial,'DejaVu Sans','Liberation Sans',sans-serif}}")?;
    for set in [Type::Title, Type::Caption, Type::Op, Type::Name, Type::Detail, Type::Port] {
        let weight = if matches!(set, Type::Title | Type::Op | Type::Name) { ";font-weight:bold" } else { "" };
        writeln!(out, ".{}{{font-size:{}px{weight}}}", text_class(set), set.size())?;
    }
    out.push_str(".m{text-anchor:middle}\n.line{fill:none;stroke-width:1.3}\n.line.v{stroke-dasharray:5 3}\n");
    out.push_str(".line.k,.line.r{stroke-dasharray:1.5 2.5}\n.box{stroke-width:1.4}\n.t.v{stroke-dasharray:5 3}\n");
    out.push_str(".t.r{stroke-width:2}\n.t.again{stroke-dasharray:2 3}\n");
    let looks: Vec<Colours> = FAMILIES.into_iter().filter(|&f| shapes.iter().any(|s| s.look == Look::Op(f))).map(of_family).collect();
    let theme = |out: &mut String, [bg, text, muted, line, tensor, scalar]: [&str; 6], dark: bool| -> std::fmt::Result {
        writeln!(out, ".bg{{fill:{bg}}}\ntext{{fill:{text}}}\n.cap,.det,.port{{fill:{muted}}}")?;
        writeln!(
            out,
            ".line{{stroke:{line}}}\n.arrow{{fill:{line}}}\n.t{{fill:{tensor};stroke:{line}}}\n.t.k,.t.r{{fill:{scalar}}}\n.t.again{{fill:{bg}}}"
        )?;
        for Colours { class, light, dark: darker } in &looks {
            let [fill, stroke] = if dark { darker } else { light };
            writeln!(out, ".{class}{{fill:{fill};stroke:{stroke}}}")?;
        }
        Ok(())
    };
    theme(out, ["#ffffff", "#1c2128", "#57606a", "#8b949e", "#f6f8fa", "#fff8dc"], false)?;
    out.push_str("@media (prefers-color-scheme:dark){\n");
    theme(out, ["#14181d", "#e8edf2", "#a3adb8", "#79838e", "#20262d", "#35301b"], true)?;
    out.push_str("}\n</style>\n");
    Ok(())
}

fn write_line(out: &mut String, line: &Line) -> std::fmt::Result {
    let class = tensor_class(line.kind).trim_start_matches('t');
    write!(out, r#"<path class="line{class}" marker-end="url(#a)" d=""#)?;
    let mut last = None;
    for (i, p) in line.route.iter().enumerate() {
        let at = (tenths(p.x), tenths(p.y));
        match last {
            None => write!(out, "M{} {}", at.0, at.1)?,
            // A step of no length would take the arrow's direction.
            Some(before) if before == at => {}
            // Down beside the boxes of a layer.
            Some(_) if i % 2 == 1 => write!(out, "V{}", at.1)?,
            Some((x, y)) if x == at.0 => {
                let _ = y;
                write!(out, "V{}", at.1)?;
            }
            Some((x, y)) => {
                let middle = tenths((y + at.1) / 2.0);
                write!(out, "C{x} {middle} {} {middle} {} {}", at.0, at.0, at.1)?;
            }
        }
        last = Some(at);
    }
    out.push_str("\"/>\n");
    Ok(())
}

fn write_shape(out: &mut String, shape: &Shape) -> std::fmt::Result {
    let r = shape.rect;
    let (class, radius) = match shape.look {
        Look::Op(f) => (of_family(f).class, 6.0),
        Look::Tensor(kind) => (tensor_class(kind), (r.height / 2.0).min(14.0)),
        Look::Again => ("t again", (r.height / 2.0).min(14.0)),
    };
    let (x, y, w, h, radius) = (tenths(r.x), tenths(r.y), tenths(r.width), tenths(r.height), tenths(radius));
    let hint = escape(&crate::output::name(&shape.hint));
    writeln!(out, r#"<rect class="box {class}" x="{x}" y="{y}" width="{w}" height="{h}" rx="{radius}"><title>{hint}</title></rect>"#)
}

fn write_text(out: &mut String, text: &Text) -> std::fmt::Result {
    let middle = if text.anchor == Anchor::Middle { " m" } else { "" };
    let (x, y) = (tenths(text.x), tenths(text.y));
    writeln!(out, r#"<text class="{}{middle}" x="{x}" y="{y}">{}</text>"#, text_class(text.set), escape(&text.text))
}

/// A tenth of a pixel is enough, and keeps files small.
fn tenths(v: f64) -> f64 {
    (v * 10.0).round() / 10.0
}

/// Text as XML has it; what XML cannot have at all becomes the replacement character.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\t' | '\n' | '\r' => out.push(' '),
            '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use hipplan::{DataType, GraphBuilder, PointwiseMode, TensorAttributes, ops};

    #[test]
    fn names_cannot_break_out() {
        let evil = "</text><script>alert(1)</script>\"'&\u{1}\u{ffff}";
        let mut g = GraphBuilder::new();
        g.set_name(evil);
        let mut t = TensorAttributes::packed(DataType::Float, &[4]);
        t.set_name(evil);
        let (x, y) = (g.tensor(t.clone()), g.tensor(t));
        g.node(evil, DataType::Float, ops::Pointwise::unary(PointwiseMode::Abs, x, y));
        let svg = write(&g.build().expect("valid").view(), &Caption { title: evil.into(), lines: vec![evil.into()] });
        assert!(!svg.contains("<script") && svg.contains("&lt;script"), "{svg}");
        assert!(!svg.chars().any(|c| c.is_control() && c != '\n'), "{svg}");
        assert!(!svg.contains("http://www.w3.org/1999/xlink") && svg.matches("http").count() == 1, "nothing is fetched");
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(tenths(12.3456).to_string(), "12.3");
        assert_eq!(tenths(12.0).to_string(), "12");
    }
}
