//! A graph as shapes, lines and texts in a plane: everything but the spelling of a file format.
//!
//! Operations are boxes. Every tensor is a pill between the operation that writes it and those that read it. A line that would pass
//! many layers is cut: the tensor's pill is drawn again, faintly, beside its far readers. So a picture grows with its graph and no
//! faster, whatever is wired to what.

use super::layout::{self, Edge, Rect, Size};
use super::{Caption, Family, TensorKind};
use crate::output;
use hipplan::{FieldRole, NodeIx, TensorIx, VerifiedGraph};
use std::collections::{BTreeSet, HashMap};

/// Layers of operations that a line may pass before it is cut.
const LONGEST: usize = 6;
/// Layers of operations that share one pill of a tensor that no operation writes.
const SHARED: usize = 3;
/// Most characters of a name.
const NAME: usize = 40;
/// Most lines of attributes in a box, and most characters of each.
const ATTRIBUTE_LINES: usize = 8;
const ATTRIBUTE_LINE: usize = 44;
const MARGIN: f64 = 28.0;
const PAD: f64 = 12.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    Op(Family),
    Tensor(TensorKind),
    /// A tensor that is drawn elsewhere.
    Again,
}

#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(crate) rect: Rect,
    pub(crate) look: Look,
    /// What a pointer that rests on it is told.
    pub(crate) hint: String,
}

#[derive(Clone, Debug)]
pub(crate) struct Line {
    /// See [`layout::Layout::routes`].
    pub(crate) route: Vec<layout::Point>,
    pub(crate) kind: TensorKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
}

/// How a text is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Title,
    Caption,
    Op,
    Name,
    Detail,
    Port,
}

impl Type {
    pub(crate) const fn size(self) -> f64 {
        match self {
            Self::Title => 20.0,
            Self::Op => 13.0,
            Self::Caption | Self::Name => 11.5,
            Self::Detail => 10.5,
            Self::Port => 9.5,
        }
    }

    const fn line_height(self) -> f64 {
        self.size() * 1.32
    }

    /// Room for a text in the widest of the usual sans-serif fonts.
    fn width(self, text: &str) -> f64 {
        let em: f64 = text.chars().map(char_width).sum();
        let bold = matches!(self, Self::Title | Self::Op | Self::Name);
        em * self.size() * if bold { 1.1 } else { 1.0 }
    }
}

fn char_width(c: char) -> f64 {
    match c {
        'i' | 'j' | 'l' | '\'' | '|' | '.' | ',' | ':' | ';' | '!' | ' ' => 0.34,
        'f' | 't' | 'r' | '(' | ')' | '[' | ']' | '/' | '-' => 0.42,
        'm' | 'w' | 'M' | 'W' | '@' | '%' => 1.0,
        '×' | '=' | '+' | '<' | '>' | '#' | '~' => 0.84,
        'A'..='Z' | '&' => 0.76,
        ' '..='~' => 0.64,
        c if u32::from(c) < 0x1100 => 0.8,
        _ => 1.1,
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Text {
    pub(crate) x: f64,
    /// Of the line on which the letters stand.
    pub(crate) y: f64,
    pub(crate) anchor: Anchor,
    pub(crate) set: Type,
    pub(crate) text: String,
}

impl Text {
    /// Room that it takes.
    #[cfg(test)]
    fn extent(&self) -> Rect {
        let (width, size) = (self.set.width(&self.text), self.set.size());
        let x = if self.anchor == Anchor::Start { self.x } else { self.x - width / 2.0 };
        Rect { x, y: self.y - size, width, height: size * 1.25 }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Picture {
    pub(crate) width: f64,
    pub(crate) height: f64,
    pub(crate) shapes: Vec<Shape>,
    pub(crate) lines: Vec<Line>,
    pub(crate) texts: Vec<Text>,
    pub(crate) title: String,
}

fn short(text: &str, most: usize) -> String {
    if text.chars().count() <= most { text.to_owned() } else { text.chars().take(most - 1).chain(['…']).collect() }
}

/// What stands in a box before it has a place.
struct Draft {
    size: Size,
    layer: usize,
    look: Look,
    hint: String,
    /// Lines from the top of the text on.
    lines: Vec<(Type, String)>,
    /// Room above the lines for the names of slots.
    ports_above: f64,
}

/// A line before it has a way: the ends, and the name of the slot at the operation.
struct Wire {
    edge: Edge,
    kind: TensorKind,
    slot: String,
    /// The operation is at the lower end.
    is_read: bool,
}

pub(crate) fn draw(graph: &VerifiedGraph<'_>, caption: &Caption) -> Picture {
    let (drafts, wires) = wire(graph);
    let sizes: Vec<Size> = drafts.iter().map(|d| d.size).collect();
    let layers: Vec<usize> = drafts.iter().map(|d| d.layer).collect();
    let edges: Vec<Edge> = wires.iter().map(|w| w.edge).collect();
    let layout = layout::arrange(&sizes, &layers, &edges);

    let mut picture = Picture {
        width: 0.0,
        height: 0.0,
        shapes: Vec::with_capacity(drafts.len()),
        lines: Vec::with_capacity(wires.len()),
        texts: Vec::new(),
        title: short(&caption.title, 80),
    };
    let mut y = MARGIN;
    let mut head = vec![(Type::Title, short(&caption.title, 60))];
    head.extend(caption.lines.iter().map(|line| (Type::Caption, short(line, 120))));
    let unused = super::unused(graph);
    if unused > 0 {
        head.push((Type::Caption, format!("{} that no operation names: not drawn", output::count(unused, "tensor"))));
    }
    let mut width = layout.width;
    for (set, text) in head {
        y += set.line_height();
        width = width.max(set.width(&text));
        picture.texts.push(Text { x: MARGIN, y, anchor: Anchor::Start, set, text });
    }
    y += MARGIN;
    let legend = Legend::of(&drafts);
    // The legend breaks into rows as wide as the rest, and no narrower than its widest entry.
    width = width.max(legend.narrowest());
    let (dx, dy) = (MARGIN + (width - layout.width) / 2.0, y);
    let shift = |r: Rect| Rect { x: r.x + dx, y: r.y + dy, ..r };

    for (wire, route) in wires.into_iter().zip(layout.routes) {
        let route: Vec<layout::Point> = route.into_iter().map(|p| layout::Point { x: p.x + dx, y: p.y + dy }).collect();
        let end = if wire.is_read { route.last() } else { route.first() };
        if let Some(end) = end {
            let y = if wire.is_read { end.y + Type::Port.size() + 3.0 } else { end.y - 5.0 };
            picture.texts.push(Text { x: end.x, y, anchor: Anchor::Middle, set: Type::Port, text: wire.slot });
        }
        picture.lines.push(Line { route, kind: wire.kind });
    }
    for (draft, rect) in drafts.into_iter().zip(layout.boxes) {
        let rect = shift(rect);
        let mut y = rect.y + draft.ports_above + 5.0;
        for (set, text) in draft.lines {
            y += set.line_height();
            picture.texts.push(Text { x: rect.x + rect.width / 2.0, y: y - set.size() * 0.22, anchor: Anchor::Middle, set, text });
        }
        picture.shapes.push(Shape { rect, look: draft.look, hint: draft.hint });
    }
    y += layout.height + MARGIN;
    y = legend.place(&mut picture, y, width);
    (picture.width, picture.height) = (width + 2.0 * MARGIN, y + MARGIN);
    picture
}

/// Boxes with layers, and the lines between them.
fn wire(graph: &VerifiedGraph<'_>) -> (Vec<Draft>, Vec<Wire>) {
    let nodes: Vec<NodeIx> = graph.nodes().collect();
    let reads: Vec<_> = nodes.iter().map(|&n| super::ends(graph, n, FieldRole::Input)).collect();
    let writes: Vec<_> = nodes.iter().map(|&n| super::ends(graph, n, FieldRole::Output)).collect();
    let mut producer: HashMap<TensorIx, usize> = HashMap::new();
    for (node, list) in writes.iter().enumerate() {
        for &(tensor, _) in list {
            producer.insert(tensor, node);
        }
    }
    let mut between = Vec::new();
    for (to, list) in reads.iter().enumerate() {
        between.extend(list.iter().filter_map(|(tensor, _)| Some(Edge { from: *producer.get(tensor)?, to })));
    }
    let levels = layout::longest_path(nodes.len(), &between);

    // Operations stand in odd layers, tensors in even ones: what an operation of level n reads is in layer 2n, what it writes in 2n + 2.
    let mut drafts: Vec<Draft> = Vec::with_capacity(nodes.len() * 2);
    for (i, &node) in nodes.iter().enumerate() {
        drafts.push(op_draft(graph, node, 2 * levels[i] + 1, &reads[i], &writes[i]));
    }
    let mut wires = Vec::new();
    let mut written: HashMap<TensorIx, usize> = HashMap::new();
    for (node, list) in writes.iter().enumerate() {
        for (tensor, slot) in list {
            drafts.push(tensor_draft(graph, *tensor, 2 * levels[node] + 2, false));
            let pill = drafts.len() - 1;
            written.insert(*tensor, pill);
            let kind = TensorKind::of(graph.tensor(*tensor));
            wires.push(Wire { edge: Edge { from: node, to: pill }, kind, slot: slot.clone(), is_read: false });
        }
    }
    // From the top: the pills of what no operation writes stand above their first readers.
    let mut by_level: Vec<usize> = (0..nodes.len()).collect();
    by_level.sort_by_key(|&node| levels[node]);
    let mut copies: HashMap<TensorIx, (usize, usize)> = HashMap::new();
    for node in by_level {
        for (tensor, slot) in &reads[node] {
            let level = levels[node];
            let home = written.get(tensor).copied().filter(|_| {
                let from = producer.get(tensor).map_or(0, |&p| levels[p]);
                (from + 1..=from + LONGEST).contains(&level)
            });
            let pill = home.unwrap_or_else(|| match copies.get(tensor) {
                Some(&(pill, from)) if level <= from + SHARED => pill,
                seen => {
                    let again = seen.is_some() || written.contains_key(tensor);
                    drafts.push(tensor_draft(graph, *tensor, 2 * level, again));
                    copies.insert(*tensor, (drafts.len() - 1, level));
                    drafts.len() - 1
                }
            });
            let kind = TensorKind::of(graph.tensor(*tensor));
            wires.push(Wire { edge: Edge { from: pill, to: node }, kind, slot: slot.clone(), is_read: true });
        }
    }
    (drafts, wires)
}

fn op_draft(graph: &VerifiedGraph<'_>, node: NodeIx, layer: usize, reads: &[(TensorIx, String)], writes: &[(TensorIx, String)]) -> Draft {
    let mut lines = vec![(Type::Op, short(&super::operation(graph, node), NAME))];
    let name = output::name(graph.node_name(node));
    if !name.is_empty() {
        lines.push((Type::Detail, short(&name, NAME)));
    }
    let mut attributes = super::attributes(graph, node);
    attributes.push(format!("compute {}", graph.compute_type(node)));
    let mut rows: Vec<String> = Vec::new();
    for text in attributes {
        let text = short(&text, ATTRIBUTE_LINE);
        match rows.last_mut() {
            Some(row) if row.chars().count() + text.chars().count() + 3 <= ATTRIBUTE_LINE => {
                row.push_str(" · ");
                row.push_str(&text);
            }
            _ => rows.push(text),
        }
    }
    if rows.len() > ATTRIBUTE_LINES {
        rows.truncate(ATTRIBUTE_LINES);
        rows.push("…".into());
    }
    lines.extend(rows.into_iter().map(|row| (Type::Detail, row)));
    let ports = |ends: &[(TensorIx, String)]| {
        let widest = ends.iter().map(|(_, slot)| Type::Port.width(slot)).fold(0.0, f64::max);
        (ends.len() + 1) as f64 * (widest + 8.0)
    };
    let widest = lines.iter().map(|(set, text)| set.width(text)).fold(0.0, f64::max);
    let width = (widest + 2.0 * PAD).max(ports(reads)).max(ports(writes));
    let row = Type::Port.line_height() + 2.0;
    let text: f64 = lines.iter().map(|(set, _)| set.line_height()).sum();
    Draft {
        size: Size { width, height: text + 2.0 * row + 10.0, spreads: true },
        layer,
        look: Look::Op(Family::of(graph.kind(node))),
        hint: graph.node_label(node).to_string(),
        lines,
        ports_above: row,
    }
}

fn tensor_draft(graph: &VerifiedGraph<'_>, tensor: TensorIx, layer: usize, again: bool) -> Draft {
    let t = graph.tensor(tensor);
    let name = short(&super::tensor_name(t), NAME);
    let mut lines = vec![(Type::Name, if again { format!("↑ {name}") } else { name })];
    if !again {
        lines.extend(super::tensor_lines(graph, t).iter().map(|line| (Type::Detail, short(line, 60))));
    }
    let widest = lines.iter().map(|(set, text)| set.width(text)).fold(0.0, f64::max);
    let text: f64 = lines.iter().map(|(set, _)| set.line_height()).sum();
    Draft {
        size: Size { width: widest + 2.0 * PAD, height: text + 10.0, spreads: false },
        layer,
        look: if again { Look::Again } else { Look::Tensor(TensorKind::of(t)) },
        hint: graph.tensor_label(tensor).to_string(),
        lines,
        ports_above: 0.0,
    }
}

/// The looks that the picture uses, in words.
struct Legend(Vec<(Look, &'static str)>);

impl Legend {
    const SWATCH: f64 = 22.0;

    fn of(drafts: &[Draft]) -> Self {
        let (mut families, mut kinds, mut again) = (BTreeSet::new(), BTreeSet::new(), false);
        for draft in drafts {
            match draft.look {
                Look::Op(family) => _ = families.insert(family),
                Look::Tensor(kind) => _ = kinds.insert(kind),
                Look::Again => again = true,
            }
        }
        let mut entries: Vec<(Look, &'static str)> = families.into_iter().map(|f| (Look::Op(f), f.name())).collect();
        entries.extend(kinds.into_iter().map(|k| (Look::Tensor(k), k.name())));
        entries.extend(again.then_some((Look::Again, "drawn above, read here")));
        Self(entries)
    }

    fn width(text: &str) -> f64 {
        Self::SWATCH + 6.0 + Type::Detail.width(text) + 16.0
    }

    fn narrowest(&self) -> f64 {
        self.0.iter().map(|(_, text)| Self::width(text)).fold(0.0, f64::max)
    }

    /// Tells where the legend ends.
    fn place(&self, picture: &mut Picture, top: f64, width: f64) -> f64 {
        let height = 14.0;
        let (mut x, mut y) = (MARGIN, top);
        for &(look, text) in &self.0 {
            if x > MARGIN && x + Self::width(text) > MARGIN + width {
                (x, y) = (MARGIN, y + height + 8.0);
            }
            let rect = Rect { x, y, width: Self::SWATCH, height };
            picture.shapes.push(Shape { rect, look, hint: text.into() });
            let at = x + Self::SWATCH + 6.0;
            picture.texts.push(Text { x: at, y: y + height - 3.5, anchor: Anchor::Start, set: Type::Detail, text: text.into() });
            x += Self::width(text);
        }
        y + height
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hipplan::{DataType, GraphBuf, GraphBuilder, PointwiseMode, TensorAttributes, Uid, ops};

    fn tensor(g: &mut GraphBuilder, name: &str) -> Uid {
        let mut t = TensorAttributes::packed(DataType::Float, &[4, 5]);
        t.set_name(name);
        g.tensor(t)
    }

    fn add(g: &mut GraphBuilder, a: Uid, b: Uid, name: &str) -> Uid {
        let y = tensor(g, name);
        g.node(name, DataType::Float, ops::Pointwise::binary(PointwiseMode::Add, a, b, y));
        y
    }

    /// No two boxes overlap, every text and shape lies in the picture, texts of a box lie in it, lines go down.
    fn check(graph: &GraphBuf) -> Picture {
        let caption = Caption { title: "A title".into(), lines: vec!["a line".into()] };
        let picture = draw(&graph.view(), &caption);
        let inside = |r: Rect| r.x >= 0.0 && r.y >= 0.0 && r.right() <= picture.width && r.bottom() <= picture.height;
        for shape in &picture.shapes {
            assert!(inside(shape.rect), "{shape:?}");
        }
        for text in &picture.texts {
            assert!(inside(text.extent()), "{text:?} {:?}", text.extent());
        }
        // A sweep over tops; boxes of one height of the picture are few.
        let mut sorted: Vec<Rect> = picture.shapes.iter().map(|s| s.rect).collect();
        sorted.sort_by(|a, b| a.y.total_cmp(&b.y).then(a.x.total_cmp(&b.x)));
        for (i, a) in sorted.iter().enumerate().take(400) {
            for b in sorted[i + 1..].iter().take_while(|b| b.y < a.bottom()) {
                assert!(a.right() <= b.x || b.right() <= a.x, "{a:?} {b:?}");
            }
        }
        for line in &picture.lines {
            assert!(line.route.windows(2).all(|p| p[0].y <= p[1].y + 1e-6), "{line:?}");
        }
        picture
    }

    #[test]
    fn a_chain_of_a_thousand_grows_no_faster_than_its_nodes() {
        let chain = |n: usize| {
            let mut g = GraphBuilder::new();
            let (mut x, bias) = (tensor(&mut g, "x"), tensor(&mut g, "bias"));
            let first = x;
            for i in 0..n {
                // Every node reads the bias, and every third the first tensor again.
                x = add(&mut g, x, if i % 3 == 0 { first } else { bias }, &format!("n{i}"));
            }
            // The last reads them all.
            check(&g.build().expect("valid"))
        };
        let (small, large) = (chain(100), chain(1000));
        let points = |p: &Picture| p.lines.iter().map(|l| l.route.len()).sum::<usize>();
        assert!(points(&large) <= 11 * points(&small), "{} {}", points(&small), points(&large));
        assert!(large.shapes.len() <= 11 * small.shapes.len());
        assert!(large.width <= 1.5 * small.width, "a chain stays narrow: {} {}", small.width, large.width);
    }

    #[test]
    fn wide_fans_and_far_readers() {
        let mut g = GraphBuilder::new();
        let x = tensor(&mut g, "x");
        let mut results: Vec<Uid> = (0..500).map(|i| add(&mut g, x, x, &format!("n{i}"))).collect();
        let y = tensor(&mut g, "y");
        results.push(x);
        let gather = ops::CustomOp { custom_op_id: "a.gather", inputs: &results, outputs: &[y], data: &[1, 2] };
        g.node("gather", DataType::Float, gather);
        let picture = check(&g.build().expect("valid"));
        assert!(picture.lines.len() < 2100);
    }

    #[test]
    fn long_names_in_any_script_fit() {
        let mut g = GraphBuilder::new();
        let x = tensor(&mut g, &"漢字".repeat(100));
        let y = tensor(&mut g, &"WMWM".repeat(100));
        add(&mut g, x, y, "a\nb\u{202e}");
        let picture = check(&g.build().expect("valid"));
        assert!(picture.texts.iter().all(|t| !t.text.contains('\n') && !t.text.contains('\u{202e}')));
    }
}
