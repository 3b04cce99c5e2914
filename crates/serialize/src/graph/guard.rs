//! The reader guard of bare hipDNN buffers (G3): slot 8 of the root table, in both of its historic forms.
//!
//! It is read by hand before the FlatBuffers verifier runs, because no tensor may be looked at before the guard has passed,
//! and because the verifier would take the older, shorter form for the newer one.

use crate::artifact::READER_VERSION;
use crate::wire::generated as wire;
use crate::wire::root::{RawTable, u32_at};
use crate::{ApiVersion, GraphError};
use flatbuffers::{InvalidFlatbuffer, TableVerifier, Verifiable, Verifier};

/// What a graph says of the reader that it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stamp {
    /// Nothing: any reader.
    Absent,
    /// `min_reader_version: uint` of R16 §4.10.
    Reader(u32),
    /// `min_required_engine_api_version: EngineApiVersion`, which took its place.
    Api(ApiVersion),
}

const SLOT: usize = 8;

/// Bytes of an inline `EngineApiVersion`.
const API_VERSION_SIZE: usize = 12;

/// Reads slot 8 of the root table; nothing else of the buffer is interpreted.
///
/// A buffer whose root table cannot be found has no stamp: the verifier says what is wrong with it. The verifier does not look
/// at slot 8, so a stamp that does not lie in the buffer is refused here.
pub(super) fn stamp(buffer: &[u8]) -> Result<Stamp, GraphError> {
    // The room up to the next field, or up to the table's end, tells the two forms apart.
    let Some((field, room)) = RawTable::stated_root(buffer).and_then(|root| root.slot(SLOT)) else { return Ok(Stamp::Absent) };
    let word = |at: usize| u32_at(buffer, field.checked_add(at)?);
    let stamp = if room < API_VERSION_SIZE {
        word(0).map(Stamp::Reader)
    } else {
        (|| Some(Stamp::Api(ApiVersion::new(word(0)?, word(4)?, word(8)?))))()
    };
    stamp.ok_or_else(|| GraphError::Structure(format!("slot 8 of the graph table at byte {field} reaches behind the buffer's end")))
}

/// Refuses a stamp above what this reader knows.
pub(super) fn check(stamp: Stamp) -> Result<(), GraphError> {
    match stamp {
        Stamp::Reader(found) if found > READER_VERSION => {
            Err(GraphError::TooNew { field: "min_reader_version", found: found.to_string(), known: READER_VERSION.to_string() })
        }
        Stamp::Api(found) if found > ApiVersion::NEWEST_KNOWN => Err(GraphError::TooNew {
            field: "min_required_engine_api_version",
            found: found.to_string(),
            known: ApiVersion::NEWEST_KNOWN.to_string(),
        }),
        _ => Ok(()),
    }
}

/// The root table without slot 8, whose width depends on its form; this module has read it already.
pub(super) struct GuardedRoot<'a>(pub(super) wire::Graph<'a>);

impl<'a> flatbuffers::Follow<'a> for GuardedRoot<'a> {
    type Inner = Self;

    unsafe fn follow(buf: &'a [u8], loc: usize) -> Self {
        // SAFETY: the caller promises what `Graph::follow` asks for: that a table lies at `loc`.
        Self(unsafe { <wire::Graph<'a> as flatbuffers::Follow<'a>>::follow(buf, loc) })
    }
}

impl Verifiable for GuardedRoot<'_> {
    fn run_verifier(v: &mut Verifier<'_, '_>, pos: usize) -> Result<(), InvalidFlatbuffer> {
        use flatbuffers::{ForwardsUOffset, Vector};
        type G<'a> = wire::Graph<'a>;
        type Tables<'a, T> = ForwardsUOffset<Vector<'a, ForwardsUOffset<T>>>;
        let table: TableVerifier<'_, '_, '_> = v.visit_table(pos)?;
        table
            .visit_field::<ForwardsUOffset<&str>>("name", G::VT_NAME, false)?
            .visit_field::<wire::DataType>("compute_data_type", G::VT_COMPUTE_DATA_TYPE, false)?
            .visit_field::<wire::DataType>("intermediate_data_type", G::VT_INTERMEDIATE_DATA_TYPE, false)?
            .visit_field::<wire::DataType>("io_data_type", G::VT_IO_DATA_TYPE, false)?
            .visit_field::<Tables<'_, wire::TensorAttributes<'_>>>("tensors", G::VT_TENSORS, false)?
            .visit_field::<Tables<'_, wire::Node<'_>>>("nodes", G::VT_NODES, false)?
            .visit_field::<i64>("preferred_engine_id", G::VT_PREFERRED_ENGINE_ID, false)?
            .visit_field::<bool>("is_override_shape_enabled", G::VT_IS_OVERRIDE_SHAPE_ENABLED, false)?
            .visit_field::<wire::Uuid>("id", G::VT_ID, false)?
            .finish();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::generated::{EngineApiVersion, Graph};
    use flatbuffers::FlatBufferBuilder;

    fn root(fields: impl FnOnce(&mut FlatBufferBuilder<'_>)) -> Vec<u8> {
        let mut fbb = FlatBufferBuilder::new();
        let start = fbb.start_table();
        fields(&mut fbb);
        let table = fbb.end_table(start);
        fbb.finish_minimal(table);
        fbb.finished_data().to_vec()
    }

    const SLOT_8: u16 = Graph::VT_MIN_REQUIRED_ENGINE_API_VERSION;

    #[test]
    fn both_forms_are_told_apart() {
        assert_eq!(stamp(&root(|_| ())), Ok(Stamp::Absent));
        for preferred in [false, true] {
            let with = |fbb: &mut FlatBufferBuilder<'_>| {
                if preferred {
                    fbb.push_slot_always(Graph::VT_PREFERRED_ENGINE_ID, 7_i64);
                }
            };
            let uint = root(|fbb| {
                with(fbb);
                fbb.push_slot_always(SLOT_8, 1_u32);
                fbb.push_slot_always(Graph::VT_IO_DATA_TYPE, 1_i8);
            });
            assert_eq!(stamp(&uint), Ok(Stamp::Reader(1)));
            let alone = root(|fbb| {
                with(fbb);
                fbb.push_slot_always(SLOT_8, 3_u32);
            });
            assert_eq!(stamp(&alone), Ok(Stamp::Reader(3)));
            let version = root(|fbb| {
                with(fbb);
                fbb.push_slot_always(SLOT_8, EngineApiVersion::new(1, 2, 0));
                fbb.push_slot_always(Graph::VT_IO_DATA_TYPE, 1_i8);
            });
            assert_eq!(stamp(&version), Ok(Stamp::Api(ApiVersion::new(1, 2, 0))));
        }
    }

    #[test]
    fn a_table_that_lies_about_its_size_hides_no_stamp() {
        let good = root(|fbb| {
            fbb.push_slot_always(SLOT_8, EngineApiVersion::new(9, 2, 0));
        });
        let table = usize::from(good[0]);
        let vtable = table - usize::from(good[table]);
        let stated = |size: u16| {
            let mut bytes = good.clone();
            bytes[vtable + 2..vtable + 4].copy_from_slice(&size.to_le_bytes());
            bytes
        };
        assert_eq!(stamp(&stated(u16::MAX)), Ok(Stamp::Api(ApiVersion::new(9, 2, 0))));
        assert_eq!(stamp(&stated(8)), Ok(Stamp::Reader(9)));
        assert_eq!(stamp(&stated(0)), Ok(Stamp::Reader(9)));
    }

    #[test]
    fn a_stamp_above_the_reader_is_too_new() {
        assert!(check(Stamp::Reader(1)).is_ok());
        assert!(check(Stamp::Reader(2)).is_err_and(|e| e.is_too_new()));
        assert!(check(Stamp::Api(ApiVersion::NEWEST_KNOWN)).is_ok());
        assert!(check(Stamp::Api(ApiVersion::new(1, 5, 0))).is_err_and(|e| e.is_too_new()));
        assert!(check(Stamp::Api(ApiVersion::new(2, 0, 0))).is_err_and(|e| e.is_too_new()));
    }

    #[test]
    fn no_bytes_make_it_panic() {
        let good = root(|fbb| {
            fbb.push_slot_always(Graph::VT_PREFERRED_ENGINE_ID, 7_i64);
            fbb.push_slot_always(SLOT_8, EngineApiVersion::new(1, 2, 0));
        });
        for end in 0..good.len() {
            _ = stamp(&good[..end]);
        }
        for at in 0..good.len() {
            for flip in [1, 0x80, 0xff] {
                let mut bad = good.clone();
                bad[at] ^= flip;
                _ = stamp(&bad);
            }
        }
    }
}
