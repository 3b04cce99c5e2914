use flatbuffers::{SIZE_VOFFSET, Table, VOffsetT};

/// Whether the table holds a field in a slot that a reader of `known_slots` slots does not know.
///
/// A writer leaves out fields that equal their defaults, so such a field means that a newer writer said something that
/// this reader would drop.
pub fn has_unknown_fields(table: &Table<'_>, known_slots: u16) -> bool {
    unknown_slots(table, known_slots).next().is_some()
}

/// The slots, from `known_slots` on, that hold a field.
pub(crate) fn unknown_slots<'t>(table: &Table<'t>, known_slots: u16) -> impl Iterator<Item = u16> + use<'t> {
    // Not `num_fields` and `get_field`: they do not survive a vtable of less than four bytes, which the verifier accepts.
    let vtable = table.vtable();
    let first = usize::from(known_slots).saturating_add(2).saturating_mul(SIZE_VOFFSET);
    let entries = (first..vtable.num_bytes()).step_by(SIZE_VOFFSET).filter_map(|at| VOffsetT::try_from(at).ok());
    // Entries first: behind the last of them, no slot is counted.
    entries.zip(known_slots..).filter(move |&(at, _)| vtable.get(at) != 0).map(|(_, slot)| slot)
}

#[cfg(test)]
mod tests {
    use flatbuffers::{FlatBufferBuilder, WIPOffset};

    use super::has_unknown_fields;
    use crate::wire::generated::Node;

    /// A node with one byte in each of the slots.
    fn node(slots: &[u16]) -> Vec<u8> {
        let mut fbb = FlatBufferBuilder::new();
        let start = fbb.start_table();
        for slot in slots {
            fbb.push_slot_always(4 + 2 * slot, 1_u8);
        }
        let root = fbb.end_table(start);
        fbb.finish_minimal(WIPOffset::<Node<'_>>::new(root.value()));
        fbb.finished_data().to_vec()
    }

    fn unknown(bytes: &[u8], known_slots: u16) -> bool {
        has_unknown_fields(&flatbuffers::root::<Node<'_>>(bytes).unwrap()._tab, known_slots)
    }

    #[test]
    fn only_fields_behind_the_known_slots_count() {
        for known in [0, 1, 4, 1000, u16::MAX] {
            assert!(!unknown(&node(&[]), known));
        }
        assert!(!unknown(&node(&[1]), 4));
        assert!(!unknown(&node(&[1]), 2));
        assert!(unknown(&node(&[1]), 1));
        assert!(unknown(&node(&[1, 4]), 4));
        assert!(unknown(&node(&[900]), 4));
        assert!(!unknown(&node(&[900]), 901));
    }

    #[test]
    fn an_empty_slot_behind_the_known_ones_is_nothing() {
        // The vtable is long because of its last slot, whose entry is then cleared.
        let mut bytes = node(&[1, 6]);
        let root = usize::from(bytes[0]);
        let vtable = root - usize::from(bytes[root]);
        assert_eq!(bytes[vtable], 4 + 2 * 7);
        bytes[vtable + 4 + 2 * 6] = 0;
        assert!(!unknown(&bytes, 4));
    }

    #[test]
    fn a_vtable_too_short_for_its_header_is_survived() {
        // Root offset, the vtable (of length 0), the table with its distance to the vtable.
        let bytes = [8, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0];
        assert!(!unknown(&bytes, 0));
    }
}
