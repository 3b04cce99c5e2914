//! Strides of MIOpen's named layouts.

use super::error::SkipReason;
use crate::conv_problem::MAX_RANK;

/// A layout: memory order of the dimensions, outermost first, and the length of channel vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    order: [usize; MAX_RANK],
    vector: i64,
}

impl Layout {
    /// The layout with this name, in any case; `flag` is whose value it is.
    ///
    /// Every order of the letters is one. Behind the letters may stand `c4` or `c8`. A filter has the letters of an image: N are
    /// its filters.
    pub(super) fn parse(flag: &'static str, name: &[u8], rank: usize) -> Result<Self, SkipReason> {
        let (letters, expected): (&[u8], _) = if rank == 5 { (b"NCDHW", "N, C, D, H, W") } else { (b"NCHW", "N, C, H, W") };
        let fail = || SkipReason::Layout { flag, value: String::from_utf8_lossy(name).into_owned(), expected };
        let upper = name.to_ascii_uppercase();
        let (head, tail) = upper.split_at_checked(rank).ok_or_else(fail)?;
        let vector = match tail {
            b"" => 1,
            b"C4" => 4,
            b"C8" => 8,
            _ => return Err(fail()),
        };
        let mut order = [0; MAX_RANK];
        for (place, letter) in order.iter_mut().zip(head) {
            *place = letters.iter().position(|l| l == letter).ok_or_else(fail)?;
        }
        let complete = letters.iter().all(|l| head.contains(l));
        if complete { Ok(Self { order, vector }) } else { Err(fail()) }
    }

    /// The same order with vectors.
    pub(super) fn with_vector(self, vector: i64) -> Self {
        Self { vector, ..self }
    }

    pub(super) fn is_vectorised(self) -> bool {
        self.vector > 1
    }

    /// Strides of a packed tensor; nothing if they overflow, or if vectors make them not linear in the channel.
    pub(super) fn strides(self, tensor: &'static str, dims: &[i64]) -> Result<[i64; MAX_RANK], SkipReason> {
        let channels = dims.get(1).copied().unwrap_or(1);
        let broken = || SkipReason::Vectorised { tensor, channels, length: self.vector };
        let mut order = self.order;
        if self.is_vectorised() {
            // Channels within a vector are neighbours. That is a stride if there is one vector, or if vectors are neighbours, too.
            let (head, _) = order.split_at_mut_checked(dims.len()).ok_or_else(broken)?;
            let at = head.iter().position(|&axis| axis == 1).ok_or_else(broken)?;
            let neighbours = head.iter().skip(at).all(|&axis| axis == 1 || dims.get(axis) == Some(&1));
            if channels.checked_rem(self.vector) != Some(0) || !(channels == self.vector || neighbours) {
                return Err(broken());
            }
            head.get_mut(at..).ok_or_else(broken)?.rotate_left(1);
        }
        let mut strides = [0; MAX_RANK];
        let mut step = 1_i64;
        for &axis in order.get(..dims.len()).unwrap_or_default().iter().rev() {
            if let (Some(stride), Some(&dim)) = (strides.get_mut(axis), dims.get(axis)) {
                *stride = step;
                // Too large a tensor is refused by the limits of the graph.
                step = step.saturating_mul(dim);
            }
        }
        Ok(strides)
    }
}

#[cfg(test)]
#[expect(clippy::indexing_slicing, reason = "tests")]
mod tests {
    use super::*;

    fn strides(name: &str, dims: &[i64]) -> Vec<i64> {
        Layout::parse("in_layout", name.as_bytes(), dims.len()).unwrap().strides("x", dims).unwrap()[..dims.len()].to_vec()
    }

    #[test]
    fn names_in_any_case_and_order() {
        assert_eq!(strides("NCHW", &[2, 3, 4, 5]), [60, 20, 5, 1]);
        assert_eq!(strides("nhwc", &[2, 3, 4, 5]), [60, 1, 15, 3]);
        assert_eq!(strides("CHWN", &[2, 3, 4, 5]), [1, 40, 10, 2]);
        assert_eq!(strides("NdHwC", &[2, 3, 4, 5, 6]), [360, 1, 90, 18, 3]);
        for (name, rank) in [("NCHW", 5), ("NCDHW", 4), ("NCHH", 4), ("NGCHW", 5), ("", 4), ("NCHWc3", 4), ("NHW", 4)] {
            assert!(matches!(Layout::parse("in_layout", name.as_bytes(), rank), Err(SkipReason::Layout { .. })), "{name}");
        }
    }

    #[test]
    fn vectors_of_channels_where_strides_can_say_them() {
        // One vector of four channels is channels last; a plane of one element keeps all vectors together.
        assert_eq!(strides("NCHWc4", &[2, 4, 3, 5]), strides("NHWC", &[2, 4, 3, 5]));
        assert_eq!(strides("NCHWc4", &[2, 8, 1, 1])[..2], [8, 1]);
        let two = Layout::parse("in_layout", b"NCHWC4", 4).unwrap();
        assert!(matches!(two.strides("x", &[2, 8, 3, 5]), Err(SkipReason::Vectorised { channels: 8, length: 4, .. })));
        assert!(matches!(two.strides("x", &[2, 3, 1, 1]), Err(SkipReason::Vectorised { .. })));
        assert!(matches!(
            Layout::parse("in_layout", b"CHWNc4", 4).unwrap().strides("x", &[2, 8, 1, 1]),
            Err(SkipReason::Vectorised { .. })
        ));
        // Batch inside of the vectors' planes: channels last.
        assert_eq!(strides("CHWNc4", &[2, 4, 3, 5]), [4, 1, 40, 8]);
    }
}
