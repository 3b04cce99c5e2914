//! Where virtual tensors lie in the workspace: tensors that live at the same time must not overlap, others may.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// Alignment of a tensor in the workspace, in bytes.
const ALIGN: u64 = 64;

/// A tensor that lies in the workspace from the step that makes it to the step that last reads it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interval {
    pub(crate) tensor: usize,
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// Bytes.
    pub(crate) size: u64,
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
pub(crate) struct Layout {
    pub(crate) offsets: Vec<u64>,
    pub(crate) size: u64,
}

/// The most bytes that are alive in any one step: no layout can be smaller.
pub(crate) fn largest_live_set(intervals: &[Interval]) -> u64 {
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
pub(crate) fn assign(intervals: &[Interval]) -> Layout {
    if intervals.len() > MANY {
        return sweep(intervals);
    }
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
    order.sort_by_key(|&i| (Reverse(intervals[i].size), intervals[i].start));
    let mut done = consider(&order);
    order.sort_by_key(|&i| (intervals[i].start, Reverse(intervals[i].end)));
    done = done || consider(&order);
    order.sort_by_key(|&i| (Reverse(intervals[i].end - intervals[i].start), Reverse(intervals[i].size)));
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

/// More tensors than this are placed by [`sweep`]: first fit costs the square of their number.
const MANY: usize = 1024;

/// Places the intervals in the order in which they start, each into the first hole that is large enough; holes come back when a tensor
/// is dead. For graphs of a hundred thousand nodes.
fn sweep(intervals: &[Interval]) -> Layout {
    let mut order: Vec<usize> = (0..intervals.len()).collect();
    order.sort_by_key(|&i| (intervals[i].start, Reverse(intervals[i].size)));
    let mut offsets = vec![0; intervals.len()];
    let mut size = 0;
    // Living tensors, the first to die on top; free ranges by offset, never touching each other.
    let mut living: BinaryHeap<Reverse<(usize, usize)>> = BinaryHeap::new();
    let mut free: BTreeMap<u64, u64> = BTreeMap::new();
    for i in order {
        let it = &intervals[i];
        while let Some(&Reverse((end, dead))) = living.peek()
            && end < it.start
        {
            living.pop();
            release(&mut free, offsets[dead], intervals[dead].padded());
        }
        let need = it.padded();
        let hole = free.iter().find(|&(_, &len)| len >= need).map(|(&at, &len)| (at, len));
        let at = match hole {
            Some((at, len)) => {
                free.remove(&at);
                if len > need {
                    free.insert(at + need, len - need);
                }
                at
            }
            // The end grows, from the last hole if that reaches it.
            None => {
                let last = free.last_key_value().map(|(&at, &len)| (at, len)).filter(|&(at, len)| at + len == size);
                let at = last.map_or(size, |(at, _)| at);
                free.remove(&at);
                size = at + need;
                at
            }
        };
        offsets[i] = at;
        living.push(Reverse((it.end, i)));
    }
    Layout { offsets, size }
}

/// Gives a range back and joins it with its neighbours.
fn release(free: &mut BTreeMap<u64, u64>, mut at: u64, mut len: u64) {
    if let Some((&before, &its_len)) = free.range(..at).next_back()
        && before + its_len == at
    {
        free.remove(&before);
        at = before;
        len += its_len;
    }
    if let Some(behind) = free.remove(&(at + len)) {
        len += behind;
    }
    free.insert(at, len);
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
    fn a_long_chain_is_placed_at_once_and_reaches_the_bound() {
        let mut chain: Vec<_> = (0..100_000).map(|i| interval(i, i + 1, 1000)).collect();
        chain.push(interval(0, 100_000, 640));
        let layout = assign(&chain);
        assert_eq!(layout.size, largest_live_set(&chain));
        // The same rule for a size that can be checked pair by pair.
        let few: Vec<_> = (0..MANY + 1).map(|i| interval(i / 3, i / 3 + i % 5, 64 + (i as u64 * 7919) % 4096)).collect();
        assert!(check(&few) >= largest_live_set(&few));
    }

    #[test]
    fn nothing_needs_nothing() {
        assert_eq!(assign(&[]).size, 0);
    }
}
