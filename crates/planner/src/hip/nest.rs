//! Loop nests: what every kernel of the provider iterates over.
//!
//! Convolutions of all directions, products, reductions and elementwise work are nests of loops over positions: rows (M), columns (N),
//! depth (K, which is summed over) and batch. Each loop moves every operand by a stride. The first operand may be seen through
//! windows: coordinates that loops move and that may leave the operand, which reads as zero there. Padding, dilation and any stride
//! are nothing but numbers of a nest; a kernel does not know which operation it executes.

/// What a loop runs over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Role {
    /// Rows of the result.
    M,
    /// Columns of the result.
    N,
    /// Independent products.
    Batch,
    /// The depth, summed over.
    K,
}

/// One loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Loop {
    pub(super) role: Role,
    pub(super) extent: i64,
    /// Elements that one iteration moves each operand by.
    pub(super) strides: Vec<i64>,
    /// The window that it moves, and by how much.
    pub(super) window: Option<(usize, i64)>,
}

/// A coordinate of the first operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    /// Its value where all loops are at 0.
    pub(super) start: i64,
    /// The operand's extent: the coordinates `0..size` are inside.
    pub(super) size: i64,
}

/// A loop nest over some operands. Loops of a role stand fastest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Nest {
    pub(super) loops: Vec<Loop>,
    pub(super) windows: Vec<Window>,
    /// Element of each operand where all loops are at 0; outside the operand where a window starts outside.
    pub(super) bases: Vec<i64>,
}

impl Nest {
    /// Iterations of all loops of a role; saturating.
    pub(super) fn extent(&self, role: Role) -> i64 {
        self.of(role).fold(1, |n, l| n.saturating_mul(l.extent))
    }

    /// The loops of a role, fastest first.
    pub(super) fn of(&self, role: Role) -> impl DoubleEndedIterator<Item = &Loop> + Clone {
        self.loops.iter().filter(move |l| l.role == role)
    }

    /// The stride of an operand in the fastest loop of a role; 0 where the role has no loop.
    pub(super) fn fastest_stride(&self, role: Role, operand: usize) -> i64 {
        self.of(role).next().map_or(0, |l| l.strides[operand])
    }

    /// The same iterations with as few loops and windows as possible: loops of one iteration go, windows that are never left go, and
    /// loops that continue one another in every operand become one. `order` names the operand by whose strides the loops of a role
    /// are sorted.
    pub(super) fn simplify(&mut self, order: impl Fn(Role) -> usize) {
        self.loops.retain(|l| l.extent != 1);
        let never_left = |w: usize, window: &Window| {
            let (mut low, mut high) = (window.start, window.start);
            for l in self.loops.iter() {
                if let Some((_, step)) = l.window.filter(|&(at, _)| at == w) {
                    let reach = (l.extent - 1).saturating_mul(step);
                    low = low.saturating_add(reach.min(0));
                    high = high.saturating_add(reach.max(0));
                }
            }
            low >= 0 && high < window.size
        };
        // New number of each window that stays.
        let mut numbers = Vec::with_capacity(self.windows.len());
        let mut kept = Vec::new();
        for (w, window) in self.windows.iter().enumerate() {
            numbers.push(if never_left(w, window) {
                None
            } else {
                kept.push(*window);
                Some(kept.len() - 1)
            });
        }
        self.windows = kept;
        for l in &mut self.loops {
            l.window = l.window.and_then(|(w, step)| Some((numbers[w]?, step)));
        }
        self.loops.sort_by_key(|l| (l.role, l.strides.get(order(l.role)).copied().unwrap_or(0).unsigned_abs(), l.extent));
        self.merge();
    }

    fn merge(&mut self) {
        let mut merged: Vec<Loop> = Vec::with_capacity(self.loops.len());
        for outer in std::mem::take(&mut self.loops) {
            if let Some(inner) = merged.last_mut() {
                let continues = inner.role == outer.role
                    && inner.window.is_none()
                    && outer.window.is_none()
                    && inner.extent.checked_mul(outer.extent).is_some()
                    && inner.strides.iter().zip(&outer.strides).all(|(i, o)| i.checked_mul(inner.extent) == Some(*o));
                if continues {
                    inner.extent *= outer.extent;
                    continue;
                }
            }
            merged.push(outer);
        }
        self.loops = merged;
    }

    /// The largest magnitude of any sum of some of the numbers that an operand's offsets are made of: its base, and for each loop
    /// a stride times anything up to the extent. Partial sums count, because kernels make them; so does one step beyond the last, up to
    /// `overshoot` for loops of the depth, which tiled products round up.
    pub(super) fn reach(&self, operand: usize, overshoot: i64) -> i64 {
        let (mut low, mut high) = (self.bases[operand].min(0), self.bases[operand].max(0));
        for l in &self.loops {
            let last = l.extent.saturating_add(if l.role == Role::K { overshoot } else { 0 });
            let reach = last.saturating_mul(l.strides[operand]);
            low = low.saturating_add(reach.min(0));
            high = high.saturating_add(reach.max(0));
        }
        low.saturating_neg().max(high)
    }

    /// The same of a window's coordinate.
    pub(super) fn window_reach(&self, window: usize, overshoot: i64) -> i64 {
        let Window { start, size } = self.windows[window];
        let (mut low, mut high) = (start.min(0), start.max(0).saturating_add(size));
        for l in &self.loops {
            if let Some((_, step)) = l.window.filter(|&(at, _)| at == window) {
                let last = l.extent.saturating_add(if l.role == Role::K { overshoot } else { 0 });
                let reach = last.saturating_mul(step);
                low = low.saturating_add(reach.min(0));
                high = high.saturating_add(reach.max(0));
            }
        }
        low.saturating_neg().max(high)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(role: Role, extent: i64, strides: &[i64], window: Option<(usize, i64)>) -> Loop {
        Loop { role, extent, strides: strides.to_vec(), window }
    }

    #[test]
    fn a_1x1_convolution_is_a_plain_product() {
        // N = 2, C = 8, K = 4, 5 x 7 pixels, packed NCHW: x, w, y.
        let mut nest = Nest {
            loops: vec![
                at(Role::M, 2, &[280, 0, 140], None),
                at(Role::M, 5, &[7, 0, 7], Some((0, 1))),
                at(Role::M, 7, &[1, 0, 1], Some((1, 1))),
                at(Role::N, 4, &[0, 8, 35], None),
                at(Role::K, 8, &[35, 1, 0], None),
                at(Role::K, 1, &[7, 1, 0], Some((0, 1))),
                at(Role::K, 1, &[1, 1, 0], Some((1, 1))),
            ],
            windows: vec![Window { start: 0, size: 5 }, Window { start: 0, size: 7 }],
            bases: vec![0; 3],
        };
        nest.simplify(|role| if role == Role::M { 2 } else { 1 });
        assert!(nest.windows.is_empty());
        assert_eq!(
            nest.loops,
            [
                at(Role::M, 35, &[1, 0, 1], None),
                at(Role::M, 2, &[280, 0, 140], None),
                at(Role::N, 4, &[0, 8, 35], None),
                at(Role::K, 8, &[35, 1, 0], None),
            ]
        );
        assert_eq!((nest.extent(Role::M), nest.extent(Role::K), nest.extent(Role::Batch)), (70, 8, 1));
        assert_eq!(nest.reach(0, 0), 35 + 2 * 280 + 8 * 35);
        assert_eq!(nest.reach(0, 8), 35 + 2 * 280 + 16 * 35);
    }

    #[test]
    fn a_window_that_may_be_left_stays() {
        let mut nest = Nest {
            loops: vec![at(Role::M, 4, &[1, 0, 1], Some((1, 1))), at(Role::K, 3, &[1, 1, 0], Some((1, 1)))],
            windows: vec![Window { start: 0, size: 1 }, Window { start: -1, size: 4 }],
            bases: vec![-1, 0, 0],
        };
        nest.simplify(|_| 0);
        assert_eq!(nest.windows, [Window { start: -1, size: 4 }]);
        assert!(nest.loops.iter().all(|l| l.window == Some((0, 1))));
    }
}
