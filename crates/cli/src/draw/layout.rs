//! Boxes in layers, from top to bottom: which place each gets, and the ways between them. Knows nothing of graphs' meaning.
//!
//! The caller gives each box its layer. Edges lead downwards; where one passes a layer, it gets a narrow lane there. The order in the
//! layers comes from sweeps by barycentre, the horizontal places from sweeps of least squares that keep the order.
//! Work and memory grow with boxes plus lanes, times the logarithm of a layer's width.

use std::collections::HashMap;

/// Space between neighbours in a layer.
const GAP: f64 = 22.0;
/// Width of a lane.
const LANE: f64 = 10.0;
/// Least space between layers.
const LAYER_GAP: f64 = 34.0;
/// Space that an edge needs to go sideways, per unit of distance; long ways need room or they run along the boxes.
const SLOPE: f64 = 0.045;
const MAX_LAYER_GAP: f64 = 90.0;
const ORDER_SWEEPS: usize = 12;
const PLACE_SWEEPS: usize = 24;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Size {
    pub(crate) width: f64,
    pub(crate) height: f64,
    /// The ends of edges are spread along the top and the bottom; otherwise all lie in the middle.
    pub(crate) spreads: bool,
}

/// Edge from the bottom of one box to the top of another in a lower layer. Between two boxes there is at most one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Edge {
    pub(crate) from: usize,
    pub(crate) to: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rect {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) width: f64,
    pub(crate) height: f64,
}

impl Rect {
    #[cfg(test)]
    pub(crate) fn right(self) -> f64 {
        self.x + self.width
    }

    pub(crate) fn bottom(self) -> f64 {
        self.y + self.height
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Point {
    pub(crate) x: f64,
    pub(crate) y: f64,
}

#[derive(Debug)]
pub(crate) struct Layout {
    /// One per box.
    pub(crate) boxes: Vec<Rect>,
    /// One per edge: straight down between the points of a pair, bending between the pairs.
    pub(crate) routes: Vec<Vec<Point>>,
    pub(crate) width: f64,
    pub(crate) height: f64,
}

/// The layer of each of `count` boxes: one below the lowest from which an edge comes. Boxes are numbered so that edges ascend.
pub(crate) fn longest_path(count: usize, edges: &[Edge]) -> Vec<usize> {
    let mut layers = vec![0; count];
    let mut sorted: Vec<Edge> = edges.iter().copied().filter(|e| e.from < e.to).collect();
    sorted.sort_unstable_by_key(|e| e.to);
    for Edge { from, to } in sorted {
        layers[to] = layers[to].max(layers[from] + 1);
    }
    layers
}

/// A box or a lane.
struct Cell {
    width: f64,
    layer: usize,
    /// Nothing leads to it, or it is a lane of such a box: it comes along with what it leads to, and pulls nothing that has a better
    /// origin. A chain whose links each read something besides would slant otherwise.
    is_side: bool,
    /// Neighbours above, each with the distance of the port from this cell's centre and from the neighbour's.
    above: Vec<Link>,
    below: Vec<Link>,
}

#[derive(Clone, Copy)]
struct Link {
    cell: usize,
    here: f64,
    there: f64,
    weight: f64,
}

/// Places boxes in their layers and finds ways for the edges.
pub(crate) fn arrange(sizes: &[Size], layers: &[usize], edges: &[Edge]) -> Layout {
    let mut cells: Vec<Cell> = sizes
        .iter()
        .zip(layers)
        .map(|(s, &layer)| Cell { width: s.width, layer, is_side: false, above: Vec::new(), below: Vec::new() })
        .collect();
    let chains = make_lanes(&mut cells, edges);
    let mut rows: Vec<Vec<usize>> = vec![Vec::new(); cells.iter().map(|c| c.layer + 1).max().unwrap_or(0)];
    for (i, cell) in cells.iter().enumerate() {
        rows[cell.layer].push(i);
    }
    for &cell in rows.iter().flatten() {
        cells[cell].is_side = match cells[cell].above.first() {
            None => true,
            Some(link) => cell >= sizes.len() && cells[link.cell].is_side,
        };
    }
    order(&cells, &mut rows);
    let ports = place_ports(&mut cells, &rows, sizes);
    let centres = place(&cells, &rows);
    finish(sizes, &cells, &rows, &centres, &chains, &ports)
}

/// Links the cells of each edge, with a lane in every layer that it passes. Edges from one box share lanes, as one line that branches.
fn make_lanes(cells: &mut Vec<Cell>, edges: &[Edge]) -> Vec<Vec<usize>> {
    let mut by_source: Vec<usize> = (0..edges.len()).collect();
    by_source.sort_by_key(|&i| (edges[i].from, cells[edges[i].to].layer));
    let mut chains = vec![Vec::new(); edges.len()];
    let mut trunk: Vec<usize> = Vec::new();
    for i in by_source {
        let Edge { from, to } = edges[i];
        if trunk.first() != Some(&from) {
            trunk = vec![from];
        }
        let (top, bottom) = (cells[from].layer, cells[to].layer);
        debug_assert!(top < bottom, "edges lead downwards");
        while trunk.len() < bottom.saturating_sub(top) {
            let layer = top + trunk.len();
            let last = *trunk.last().unwrap_or(&from);
            cells.push(Cell { width: LANE, layer, is_side: false, above: Vec::new(), below: Vec::new() });
            let lane = cells.len() - 1;
            // Lines through several layers should be straight before all others.
            link(cells, last, lane, if last == from { 2.0 } else { 8.0 });
            trunk.push(lane);
        }
        let last = trunk[bottom.saturating_sub(top).saturating_sub(1)];
        link(cells, last, to, if last == from { 1.0 } else { 2.0 });
        chains[i] = trunk[..bottom.saturating_sub(top).max(1)].to_vec();
        chains[i].push(to);
    }
    chains
}

fn link(cells: &mut [Cell], upper: usize, lower: usize, weight: f64) {
    cells[upper].below.push(Link { cell: lower, here: 0.0, there: 0.0, weight });
    cells[lower].above.push(Link { cell: upper, here: 0.0, there: 0.0, weight });
}

/// Fewest crossings found in a number of sweeps.
fn order(cells: &[Cell], rows: &mut Vec<Vec<usize>>) {
    let mut position = vec![0_usize; cells.len()];
    let number = |row: &[usize], position: &mut [usize]| row.iter().enumerate().for_each(|(i, &cell)| position[cell] = i);
    rows.iter().for_each(|row| number(row, &mut position));
    let mut best = (crossings(cells, rows, &position), rows.clone());
    for sweep in 0..ORDER_SWEEPS {
        if best.0 == 0 {
            break;
        }
        let down = sweep % 2 == 0;
        let count = rows.len();
        for i in 0..count {
            let row = &mut rows[if down { i } else { count - 1 - i }];
            let mut keyed: Vec<(f64, usize)> = row
                .iter()
                .enumerate()
                .map(|(at, &cell)| {
                    let links = if down { &cells[cell].above } else { &cells[cell].below };
                    let sum: usize = links.iter().map(|l| position[l.cell]).sum();
                    // What hangs on nothing keeps its place.
                    (if links.is_empty() { at as f64 } else { sum as f64 / links.len() as f64 }, cell)
                })
                .collect();
            keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
            row.clear();
            row.extend(keyed.into_iter().map(|(_, cell)| cell));
            number(row, &mut position);
        }
        let found = crossings(cells, rows, &position);
        if found < best.0 {
            best = (found, rows.clone());
        }
    }
    *rows = best.1;
}

/// Crossings between neighbouring layers: inversions, counted with a Fenwick tree.
fn crossings(cells: &[Cell], rows: &[Vec<usize>], position: &[usize]) -> u64 {
    let mut total = 0_u64;
    for pair in rows.windows(2) {
        let mut tree = vec![0_u64; pair[1].len() + 1];
        let mut seen = 0_u64;
        for &upper in &pair[0] {
            let mut ends: Vec<usize> = cells[upper].below.iter().map(|l| position[l.cell]).collect();
            ends.sort_unstable();
            for &end in &ends {
                // Ends at or left of this one, among the lines of cells further left.
                let (mut at, mut below) = (end + 1, 0);
                while at > 0 {
                    below += tree[at];
                    at &= at - 1;
                }
                total += seen - below;
            }
            for end in ends {
                let mut at = end + 1;
                while at < tree.len() {
                    tree[at] += 1;
                    at += at & at.wrapping_neg();
                }
                seen += 1;
            }
        }
    }
    total
}

/// Where the line between an upper and a lower cell ends, from the centre of each.
type Ports = HashMap<(usize, usize), (f64, f64)>;

/// Spreads the ends of edges along a box, in the order of what they lead to.
fn place_ports(cells: &mut [Cell], rows: &[Vec<usize>], sizes: &[Size]) -> Ports {
    let mut position = vec![0_usize; cells.len()];
    rows.iter().flat_map(|row| row.iter().enumerate()).for_each(|(i, &cell)| position[cell] = i);
    let mut ports = Ports::new();
    for (upper, cell) in cells.iter().enumerate() {
        for link in &cell.below {
            ports.insert((upper, link.cell), (0.0, 0.0));
        }
    }
    for (i, size) in sizes.iter().enumerate().filter(|(_, s)| s.spreads) {
        let spread = |links: &mut Vec<Link>, port: &mut dyn FnMut(usize, f64)| {
            links.sort_by_key(|l| position[l.cell]);
            let count = links.len() as f64;
            for (at, link) in links.iter().enumerate() {
                port(link.cell, size.width * ((at as f64 + 1.0) / (count + 1.0) - 0.5));
            }
        };
        spread(&mut cells[i].above, &mut |upper, x| ports.entry((upper, i)).or_default().1 = x);
        spread(&mut cells[i].below, &mut |lower, x| ports.entry((i, lower)).or_default().0 = x);
    }
    for (i, cell) in cells.iter_mut().enumerate() {
        for link in &mut cell.above {
            (link.there, link.here) = ports.get(&(link.cell, i)).copied().unwrap_or_default();
        }
        for link in &mut cell.below {
            (link.here, link.there) = ports.get(&(i, link.cell)).copied().unwrap_or_default();
        }
    }
    ports
}

/// Centres of all cells.
fn place(cells: &[Cell], rows: &[Vec<usize>]) -> Vec<f64> {
    let mut centres = vec![0.0; cells.len()];
    for row in rows {
        let mut x = 0.0;
        let total: f64 = row.iter().map(|&c| cells[c].width + GAP).sum();
        for &cell in row {
            centres[cell] = x + cells[cell].width / 2.0 - total / 2.0;
            x += cells[cell].width + GAP;
        }
    }
    for sweep in 0..PLACE_SWEEPS {
        let down = sweep % 2 == 0;
        for i in 0..rows.len() {
            let row = &rows[if down { i } else { rows.len() - 1 - i }];
            let wishes: Vec<(f64, f64)> = row.iter().map(|&cell| wish(cells, &centres, cell, down, 0.15)).collect();
            least_squares(cells, row, &wishes, &mut centres);
        }
    }
    // Once more downwards with no regard to what comes: what can stand right below its origin does. Then what has no origin moves
    // to its readers, as far as the rest leaves room.
    for row in rows {
        let wishes: Vec<(f64, f64)> = row.iter().map(|&cell| wish(cells, &centres, cell, true, 0.0)).collect();
        least_squares(cells, row, &wishes, &mut centres);
    }
    for row in rows.iter().rev() {
        let stays = |cell: usize| !cells[cell].above.is_empty() || cells[cell].below.is_empty();
        let one = |&cell: &usize| if stays(cell) { (centres[cell], 1e4) } else { wish(cells, &centres, cell, false, 0.0) };
        let wishes: Vec<(f64, f64)> = row.iter().map(one).collect();
        least_squares(cells, row, &wishes, &mut centres);
    }
    centres
}

/// Where a cell would stand if it were alone, and how much it matters: mostly by the layer that was placed before, by the other as
/// much as `ahead` says.
fn wish(cells: &[Cell], centres: &[f64], cell: usize, down: bool, ahead: f64) -> (f64, f64) {
    let Cell { above, below, .. } = &cells[cell];
    let (first, second) = if down { (above, below) } else { (below, above) };
    // Only what hangs on one line stands over its port: in a row of others, the offsets of ports would add up to a slant.
    let is_leaf = above.len() + below.len() == 1;
    let pull = |links: &[Link], factor: f64| -> (f64, f64) {
        let has_better = links.iter().any(|l| !cells[l.cell].is_side);
        links.iter().filter(|l| !has_better || !cells[l.cell].is_side).fold((0.0, 0.0), |(sum, weight), l| {
            let w = l.weight * factor;
            (sum + w * (centres[l.cell] + if is_leaf { l.there } else { 0.0 }), weight + w)
        })
    };
    let (a, b) = (pull(first, 1.0), pull(second, ahead));
    let weight = a.1 + b.1;
    if weight > 0.0 { ((a.0 + b.0) / weight, weight) } else { (centres[cell], 0.01) }
}

/// The places nearest to the wishes that keep order and gaps: pooling of neighbours that want to overlap.
fn least_squares(cells: &[Cell], row: &[usize], wishes: &[(f64, f64)], centres: &mut [f64]) {
    // With the widths taken off, places need only ascend.
    let mut offset = 0.0;
    let mut offsets = Vec::with_capacity(row.len());
    for (i, &cell) in row.iter().enumerate() {
        if i > 0 {
            offset += (cells[row[i - 1]].width + cells[cell].width) / 2.0 + GAP;
        }
        offsets.push(offset);
    }
    // Pools: sum of weighted wishes, weight, number of cells.
    let mut pools: Vec<(f64, f64, usize)> = Vec::new();
    for (&(wish, weight), &offset) in wishes.iter().zip(&offsets) {
        let mut pool = ((wish - offset) * weight, weight, 1);
        while let Some(&last) = pools.last() {
            if last.0 / last.1 < pool.0 / pool.1 {
                break;
            }
            pool = (pool.0 + last.0, pool.1 + last.1, pool.2 + last.2);
            pools.pop();
        }
        pools.push(pool);
    }
    let places = pools.iter().flat_map(|&(sum, weight, count)| std::iter::repeat_n(sum / weight, count));
    for ((&cell, place), offset) in row.iter().zip(places).zip(offsets) {
        centres[cell] = place + offset;
    }
}

fn finish(sizes: &[Size], cells: &[Cell], rows: &[Vec<usize>], centres: &[f64], chains: &[Vec<usize>], ports: &Ports) -> Layout {
    let left = cells.iter().zip(centres).map(|(c, x)| x - c.width / 2.0).fold(f64::INFINITY, f64::min);
    let right = cells.iter().zip(centres).map(|(c, x)| x + c.width / 2.0).fold(f64::NEG_INFINITY, f64::max);
    let height_of = |cell: usize| sizes.get(cell).map_or(0.0, |s| s.height);
    let mut bands = Vec::with_capacity(rows.len());
    let mut y = 0.0;
    for (i, row) in rows.iter().enumerate() {
        let height = row.iter().map(|&cell| height_of(cell)).fold(0.0, f64::max);
        bands.push((y, y + height));
        let sideways = row.iter().flat_map(|&cell| cells[cell].below.iter().map(move |l| (cell, l)));
        let widest = sideways.map(|(cell, l)| (centres[cell] + l.here - centres[l.cell] - l.there).abs()).fold(0.0, f64::max);
        if i + 1 < rows.len() {
            y += height + (LAYER_GAP + widest * SLOPE).min(MAX_LAYER_GAP);
        } else {
            y += height;
        }
    }
    let boxes: Vec<Rect> = sizes
        .iter()
        .enumerate()
        .map(|(i, s)| {
            let (top, bottom) = bands[cells[i].layer];
            // In the middle of its band.
            let y = top + (bottom - top - s.height) / 2.0;
            Rect { x: centres[i] - s.width / 2.0 - left, y, width: s.width, height: s.height }
        })
        .collect();
    let route = |chain: &Vec<usize>| {
        let mut points = Vec::with_capacity(chain.len() * 2);
        for pair in chain.windows(2) {
            let (upper, lower) = (pair[0], pair[1]);
            let (out, into) = ports.get(&(upper, lower)).copied().unwrap_or_default();
            let (x1, x2) = (centres[upper] + out - left, centres[lower] + into - left);
            let (upper_band, lower_band) = (bands[cells[upper].layer], bands[cells[lower].layer]);
            // From the box to the end of its band; a lane was drawn when it was reached.
            if let Some(from) = boxes.get(upper) {
                points.push(Point { x: x1, y: from.bottom() });
                points.push(Point { x: x1, y: upper_band.1 });
            }
            // Across the gap, then from the start of the next band to the box, or all through the band.
            points.push(Point { x: x2, y: lower_band.0 });
            points.push(Point { x: x2, y: boxes.get(lower).map_or(lower_band.1, |to| to.y) });
        }
        points
    };
    let routes = chains.iter().map(route).collect();
    Layout { boxes, routes, width: (right - left).max(0.0), height: y }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOX: Size = Size { width: 80.0, height: 30.0, spreads: false };

    fn check(sizes: &[Size], layers: &[usize], edges: &[Edge]) -> Layout {
        let layout = arrange(sizes, layers, edges);
        assert_eq!(layout.boxes.len(), sizes.len());
        for rect in &layout.boxes {
            assert!(rect.x >= -1e-6 && rect.right() <= layout.width + 1e-6, "{rect:?} {}", layout.width);
            assert!(rect.y >= -1e-6 && rect.bottom() <= layout.height + 1e-6, "{rect:?} {}", layout.height);
        }
        // Boxes of one layer stand side by side; boxes of two layers below each other.
        let mut by_layer: Vec<usize> = (0..sizes.len()).collect();
        by_layer.sort_by(|&a, &b| layers[a].cmp(&layers[b]).then(layout.boxes[a].x.total_cmp(&layout.boxes[b].x)));
        for pair in by_layer.windows(2) {
            let (a, b) = (layout.boxes[pair[0]], layout.boxes[pair[1]]);
            if layers[pair[0]] == layers[pair[1]] {
                assert!(a.right() < b.x, "{a:?} overlaps {b:?}");
            }
        }
        let depth = layers.iter().max().map_or(0, |m| m + 1);
        let mut bands = vec![(f64::INFINITY, f64::NEG_INFINITY); depth];
        for (rect, &layer) in layout.boxes.iter().zip(layers) {
            bands[layer] = (bands[layer].0.min(rect.y), bands[layer].1.max(rect.bottom()));
        }
        let occupied: Vec<_> = bands.into_iter().filter(|b| b.0.is_finite()).collect();
        assert!(occupied.windows(2).all(|pair| pair[0].1 < pair[1].0), "{occupied:?}");
        for (route, edge) in layout.routes.iter().zip(edges) {
            let (from, to) = (layout.boxes[edge.from], layout.boxes[edge.to]);
            let (first, last) = (route[0], route[route.len() - 1]);
            assert!((first.y - from.bottom()).abs() < 1e-6 && first.x >= from.x && first.x <= from.right(), "{first:?} {from:?}");
            assert!((last.y - to.y).abs() < 1e-6 && last.x >= to.x && last.x <= to.right(), "{last:?} {to:?}");
            assert!(route.windows(2).all(|p| p[0].y <= p[1].y + 1e-6), "edges go down: {route:?}");
            // Sideways only between the layers: within a band the line is straight, beside all boxes.
            for pair in route.chunks_exact(2) {
                assert!((pair[0].x - pair[1].x).abs() < 1e-6, "{route:?}");
            }
            for (i, rect) in layout.boxes.iter().enumerate().filter(|(i, _)| *i != edge.from && *i != edge.to) {
                for pair in route.chunks_exact(2) {
                    let beside = pair[0].x < rect.x || pair[0].x > rect.right();
                    let apart = pair[1].y <= rect.y + 1e-6 || pair[0].y >= rect.bottom() - 1e-6;
                    assert!(beside || apart, "line {pair:?} through box {i} {rect:?}");
                }
            }
        }
        layout
    }

    fn edge(from: usize, to: usize) -> Edge {
        Edge { from, to }
    }

    #[test]
    fn nothing_and_one_box() {
        check(&[], &[], &[]);
        let layout = check(&[BOX], &[0], &[]);
        assert_eq!((layout.width, layout.height), (80.0, 30.0));
    }

    #[test]
    fn a_chain_is_straight() {
        let n = 1000;
        let edges: Vec<Edge> = (1..n).map(|i| edge(i - 1, i)).collect();
        let layers = longest_path(n, &edges);
        assert_eq!(layers[n - 1], n - 1);
        let layout = check(&vec![BOX; 12], &layers[..12], &edges[..11]);
        assert!(layout.boxes.windows(2).all(|p| (p[0].x - p[1].x).abs() < 0.5), "{:?}", layout.boxes);
        let layout = arrange(&vec![BOX; n], &layers, &edges);
        assert_eq!(layout.width.round(), 80.0);
    }

    #[test]
    fn diamonds_fans_and_long_ways() {
        // 0 -> 1..=5 -> 6, and 0 -> 6 past them.
        let mut edges: Vec<Edge> = (1..=5).flat_map(|i| [edge(0, i), edge(i, 6)]).collect();
        edges.push(edge(0, 6));
        let layers = longest_path(7, &edges);
        assert_eq!(layers, [0, 1, 1, 1, 1, 1, 2]);
        let layout = check(&[BOX; 7], &layers, &edges);
        let centre = |i: usize| layout.boxes[i].x + 40.0;
        assert!((centre(0) - centre(6)).abs() < 60.0, "{:?}", layout.boxes);
        // A way past ten layers.
        let mut edges: Vec<Edge> = (1..12).map(|i| edge(i - 1, i)).collect();
        edges.push(edge(0, 11));
        edges.push(edge(2, 9));
        check(&[BOX; 12], &longest_path(12, &edges), &edges);
    }

    #[test]
    fn crossings_are_undone() {
        // Two layers, wired in reverse.
        let n = 20;
        let edges: Vec<Edge> = (0..n).map(|i| edge(i, n + (n - 1 - i))).collect();
        let layers: Vec<usize> = (0..2 * n).map(|i| i / n).collect();
        let layout = check(&vec![BOX; 2 * n], &layers, &edges);
        for a in 0..n {
            for b in 0..a {
                let (top, bottom) = (layout.boxes[a].x < layout.boxes[b].x, layout.boxes[2 * n - 1 - a].x < layout.boxes[2 * n - 1 - b].x);
                assert_eq!(top, bottom, "edges {a} and {b} cross");
            }
        }
    }

    #[test]
    fn random_layers_keep_every_promise() {
        let mut state = 1_u64;
        let mut below = move |n: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % n
        };
        for _ in 0..60 {
            let n = 2 + below(30);
            let mut unique: Vec<Edge> = Vec::new();
            for to in 1..n {
                for _ in 0..1 + below(3) {
                    unique.push(edge(below(to), to));
                }
            }
            unique.sort_unstable_by_key(|e| (e.from, e.to));
            unique.dedup();
            let sizes: Vec<Size> =
                (0..n).map(|_| Size { width: 20.0 + below(200) as f64, height: 20.0 + below(60) as f64, spreads: below(2) == 0 }).collect();
            check(&sizes, &longest_path(n, &unique), &unique);
        }
    }

    #[test]
    fn work_grows_with_the_lines_and_not_with_their_square() {
        // A fan of many and a chain of many: memory for lanes is what could blow up.
        let n = 3000;
        let edges: Vec<Edge> = (1..n).map(|i| edge(0, i)).collect();
        let layers: Vec<usize> = (0..n).map(|i| usize::from(i > 0)).collect();
        let layout = arrange(&vec![BOX; n], &layers, &edges);
        assert_eq!(layout.routes.iter().map(Vec::len).sum::<usize>(), 4 * (n - 1));
        // Many ends far below share one line.
        let depth = 300;
        let mut edges: Vec<Edge> = (1..depth).map(|i| edge(i - 1, i)).collect();
        edges.extend((2..depth).map(|i| edge(0, i)));
        let mut cells: Vec<Cell> = longest_path(depth, &edges)
            .into_iter()
            .map(|layer| Cell { width: 1.0, layer, is_side: false, above: Vec::new(), below: Vec::new() })
            .collect();
        make_lanes(&mut cells, &edges);
        assert_eq!(cells.len(), depth + depth - 2, "one lane a layer");
    }
}
