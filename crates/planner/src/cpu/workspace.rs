//! Where virtual tensors lie in the workspace: tensors that live at the same time must not overlap, others may.

/// Alignment of a tensor in the workspace, in bytes.
const ALIGN: u64 = 64;

/// A tensor that lies in the workspace from the step that makes it to the step that last reads it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Interval {
    pub(super) tensor: usize,
    pub(super) start: usize,
    pub(super) end: usize,
    /// Bytes.
    pub(super) size: u64,
}

impl Interval {
    fn overlaps(&self, other: &Self) -> bool {
        self.start <= other.end && other.start <= self.end
    }

    fn padded(&self) -> u64 {
        self.size.div_ceil(ALIGN).saturating_mul(ALIGN)
    }
}

/// An offset for each interval, and the size of the whole.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub(super) offsets: Vec<u64>,
    pub(super) size: u64,
}

/// The most bytes that are alive in any one step: no layout can be smaller.
pub(super) fn largest_live_set(intervals: &[Interval]) -> u64 {
    let steps = intervals.iter().map(|i| i.end + 1).max().unwrap_or(0);
    let mut change = vec![0_i128; steps + 1];
    for i in intervals {
        change[i.start] += i128::from(i.padded());
        change[i.end + 1] -= i128::from(i.padded());
    }
    let mut live = 0;
    let most = change.into_iter().map(|c| {
        live += c;
        live
    });
    most.max().and_then(|m| u64::try_from(m).ok()).unwrap_or(0)
}

/// Packs the intervals: several orders of first fit, until one is as small as the largest live set. Deterministic.
///
/// The problem is NP-hard in general; on chains and on the graphs of networks one of the orders reaches the bound.
pub(super) fn assign(intervals: &[Interval]) -> Layout {
    let bound = largest_live_set(intervals);
    let mut order: Vec<usize> = (0..intervals.len()).collect();
    let mut best: Option<Layout> = None;
    let mut consider = |order: &[usize]| {
        let layout = first_fit(intervals, order);
        if best.as_ref().is_none_or(|b| layout.size < b.size) {
            best = Some(layout);
        }
        best.as_ref().is_some_and(|b| b.size <= bound)
    };
    order.sort_by_key(|&i| (std::cmp::Reverse(intervals[i].size), intervals[i].start));
    let mut done = consider(&order);
    order.sort_by_key(|&i| (intervals[i].start, std::cmp::Reverse(intervals[i].end)));
    done = done || consider(&order);
    order.sort_by_key(|&i| (std::cmp::Reverse(intervals[i].end - intervals[i].start), std::cmp::Reverse(intervals[i].size)));
    done = done || consider(&order);
    // A fixed sequence of shuffles, for what is left; few, because each costs the square of the number of tensors.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let tries = if intervals.len() > 256 { 0 } else { 64 };
    for _ in 0..tries {
        if done {
            break;
        }
        for i in (1..order.len()).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            order.swap(i, (state >> 33) as usize % (i + 1));
        }
        done = consider(&order);
    }
    best.unwrap_or(Layout { offsets: Vec::new(), size: 0 })
}

/// Places the intervals in the given order, each at the lowest offset that is free for its whole life.
fn first_fit(intervals: &[Interval], order: &[usize]) -> Layout {
    let mut offsets = vec![0; intervals.len()];
    let mut placed: Vec<usize> = Vec::with_capacity(order.len());
    let mut size = 0;
    let mut busy: Vec<(u64, u64)> = Vec::new();
    for &i in order {
        let it = &intervals[i];
        busy.clear();
        busy.extend(placed.iter().filter(|&&j| intervals[j].overlaps(it)).map(|&j| (offsets[j], offsets[j] + intervals[j].padded())));
        busy.sort_unstable();
        let mut at = 0;
        for &(from, to) in &busy {
            if from >= at + it.padded() {
                break;
            }
            at = at.max(to);
        }
        offsets[i] = at;
        size = size.max(at + it.padded());
        placed.push(i);
    }
    Layout { offsets, size }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(start: usize, end: usize, size: u64) -> Interval {
        Interval { tensor: 0, start, end, size }
    }

    fn check(intervals: &[Interval]) -> u64 {
        let layout = assign(intervals);
        for (i, a) in intervals.iter().enumerate() {
            assert!(layout.offsets[i].is_multiple_of(ALIGN));
            assert!(layout.offsets[i] + a.size <= layout.size);
            for (j, b) in intervals.iter().enumerate().skip(i + 1) {
                let apart = layout.offsets[i] + a.size <= layout.offsets[j] || layout.offsets[j] + b.size <= layout.offsets[i];
                assert!(apart || !a.overlaps(b), "{a:?} and {b:?} overlap");
            }
        }
        layout.size
    }

    #[test]
    fn a_chain_needs_two_of_its_tensors() {
        let chain: Vec<_> = (0..10).map(|i| interval(i, i + 1, 1000)).collect();
        assert_eq!(check(&chain), 2 * 1024);
    }

    #[test]
    fn a_chain_of_growing_tensors_reaches_the_bound() {
        let chain: Vec<_> = (0..8).map(|i| interval(i, i + 1, 64 << i)).collect();
        assert_eq!(check(&chain), largest_live_set(&chain));
        let mut back: Vec<_> = (0..8).map(|i| interval(i, i + 1, 64 << (7 - i))).collect();
        assert_eq!(check(&back), largest_live_set(&back));
        back.push(interval(0, 8, 640));
        assert_eq!(check(&back), largest_live_set(&back));
    }

    #[test]
    fn random_intervals_never_overlap_and_mostly_reach_the_bound() {
        let mut state = 1_u64;
        let mut next = |n: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % n
        };
        let mut reached = 0;
        for _ in 0..200 {
            let intervals: Vec<_> = (0..12)
                .map(|_| {
                    let start = next(10) as usize;
                    interval(start, start + next(4) as usize, 1 + next(4096))
                })
                .collect();
            if check(&intervals) == largest_live_set(&intervals) {
                reached += 1;
            }
        }
        assert!(reached >= 150, "{reached} of 200 reached the bound");
    }

    #[test]
    fn nothing_needs_nothing() {
        assert_eq!(assign(&[]).size, 0);
    }
}
