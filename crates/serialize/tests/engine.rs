//! Engine details and configs: there and back, and hostile bytes.

use hipplan_serialize::Limits;
use hipplan_serialize::hipdnn::engine::{
    EngineConfig, EngineConfigError, EngineDetails, EngineDetailsError, KnobConstraint, KnobInfo, KnobValue,
};
use proptest::prelude::*;

fn value() -> impl Strategy<Value = KnobValue> {
    prop_oneof![any::<i64>().prop_map(KnobValue::Int), (-1e300_f64..1e300).prop_map(KnobValue::Float), ".{0,12}".prop_map(KnobValue::Text),]
}

fn constraint(of: &KnobValue) -> BoxedStrategy<Option<KnobConstraint>> {
    let some = match of {
        KnobValue::Int(_) => (any::<i64>(), any::<i64>(), 1..i64::MAX, proptest::collection::vec(any::<i64>(), 0..4))
            .prop_map(|(a, b, step, valid)| KnobConstraint::Int { min: a.min(b), max: a.max(b), step, valid })
            .boxed(),
        KnobValue::Float(_) => (-1e9_f64..0.0, 0.0..1e9_f64).prop_map(|(min, max)| KnobConstraint::Float { min, max }).boxed(),
        KnobValue::Text(_) => (0..1_u32 << 31, proptest::collection::vec(".{0,5}", 0..4))
            .prop_map(|(max_length, valid)| KnobConstraint::Text { max_length, valid })
            .boxed(),
    };
    proptest::option::of(some).boxed()
}

fn knobs() -> impl Strategy<Value = Vec<KnobInfo>> {
    let knob = value().prop_flat_map(|default| (constraint(&default), Just(default), ".{0,9}", any::<bool>()));
    proptest::collection::btree_map("[a-z]{1,4}\\.[a-z]{1,4}", knob, 0..6).prop_map(|knobs| {
        let info = |(id, (constraint, default, description, deprecated))| KnobInfo { id, description, default, constraint, deprecated };
        knobs.into_iter().map(info).collect()
    })
}

fn details() -> impl Strategy<Value = EngineDetails> {
    (any::<i64>(), proptest::option::of(".{0,9}"), knobs(), proptest::collection::vec(any::<i32>(), 0..4))
        .prop_map(|(engine_id, name, knobs, behavior_notes)| EngineDetails { engine_id, name, knobs, behavior_notes })
}

fn config() -> impl Strategy<Value = EngineConfig> {
    (any::<i64>(), proptest::collection::btree_map(".{1,9}", value(), 0..6))
        .prop_map(|(engine_id, knobs)| EngineConfig { engine_id, knobs: knobs.into_iter().collect() })
}

proptest! {
    #[test]
    fn details_come_back(details in details()) {
        prop_assert_eq!(EngineDetails::parse(&details.encode(), &Limits::DEFAULT), Ok(details));
    }

    #[test]
    fn configs_come_back_and_their_order_does_not_matter(config in config()) {
        let bytes = config.encode();
        prop_assert_eq!(EngineConfig::parse(&bytes, &Limits::DEFAULT), Ok(config.clone()));
        let mut other = config;
        other.knobs.reverse();
        prop_assert_eq!(other.encode(), bytes);
    }

    #[test]
    fn damaged_bytes_are_an_error_or_other_contents(details in details(), config in config(), at: prop::sample::Index, with: u8, cut: prop::sample::Index) {
        for bytes in [details.encode(), config.encode()] {
            let mut damaged = bytes.clone();
            damaged[at.index(bytes.len())] = with;
            for bytes in [&damaged[..], &damaged[..cut.index(bytes.len())]] {
                match EngineDetails::parse(bytes, &Limits::DEFAULT) {
                    // What is read can be written and used.
                    Ok(details) => {
                        prop_assert_eq!(EngineDetails::parse(&details.encode(), &Limits::DEFAULT), Ok(details.clone()));
                        for knob in &details.knobs {
                            _ = knob.parse_value("1");
                        }
                    }
                    Err(error) => prop_assert!(error.to_string().starts_with("engine details: "), "{error}"),
                }
                if let Err(error) = EngineConfig::parse(bytes, &Limits::DEFAULT) {
                    prop_assert!(!error.to_string().is_empty());
                }
            }
        }
    }
}

/// Details of one knob, before anybody checked them.
fn parse(knob: KnobInfo) -> Result<EngineDetails, EngineDetailsError> {
    EngineDetails::parse(&EngineDetails { knobs: vec![knob], ..EngineDetails::default() }.encode(), &Limits::DEFAULT)
}

fn knob(default: KnobValue, constraint: Option<KnobConstraint>) -> KnobInfo {
    KnobInfo { id: "k".into(), description: String::new(), default, constraint, deprecated: false }
}

#[test]
fn knobs_without_sense_are_refused() {
    let int = |min, max, step| Some(KnobConstraint::Int { min, max, step, valid: vec![] });
    assert!(parse(knob(KnobValue::Int(0), int(0, 0, 1))).is_ok());
    for (constraint, field) in [(int(1, 0, 1), "max_value"), (int(0, 1, 0), "step"), (int(0, 1, -1), "step")] {
        let error = parse(knob(KnobValue::Int(0), constraint)).expect_err(field);
        assert!(matches!(&error, EngineDetailsError::Constraint { field: found, .. } if *found == field), "{error}");
    }
    for (min, max) in [(1.0, 0.0), (f64::NAN, 1.0), (0.0, f64::NAN)] {
        let error = parse(knob(KnobValue::Float(0.0), Some(KnobConstraint::Float { min, max }))).expect_err("no range");
        assert!(matches!(error, EngineDetailsError::Constraint { field: "max_value", .. }), "{error}");
    }
    let error = parse(knob(KnobValue::Float(f64::NAN), None)).expect_err("no number");
    assert!(matches!(error, EngineDetailsError::Constraint { field: "default", .. }), "{error}");
    let error = parse(knob(KnobValue::Float(0.0), int(0, 1, 1))).expect_err("of another kind");
    assert_eq!(error.to_string(), "engine details: knob k: its default is of kind float, its constraint is: an integer in 0..=1");
}

#[test]
fn ids_of_knobs_are_stated_and_unique() {
    let error = parse(KnobInfo { id: String::new(), ..knob(KnobValue::Int(0), None) }).expect_err("no id");
    assert!(matches!(error, EngineDetailsError::KnobId { position: 0, .. }), "{error}");
    let knobs = vec![knob(KnobValue::Int(0), None), knob(KnobValue::Int(1), None)];
    let error = EngineDetails::parse(&EngineDetails { knobs, ..EngineDetails::default() }.encode(), &Limits::DEFAULT).expect_err("twice");
    assert!(matches!(&error, EngineDetailsError::KnobId { position: 1, id } if id == "k"), "{error}");

    for id in ["", "a"] {
        let knobs = vec![("a".to_owned(), KnobValue::Int(0)), (id.to_owned(), KnobValue::Int(1))];
        let error = EngineConfig::parse(&EngineConfig { engine_id: 1, knobs }.encode(), &Limits::DEFAULT).expect_err("not unique");
        assert!(matches!(error, EngineConfigError::KnobId { .. }), "{error}");
    }
    let knobs = vec![("a".to_owned(), KnobValue::Float(f64::INFINITY))];
    let error = EngineConfig::parse(&EngineConfig { engine_id: 1, knobs }.encode(), &Limits::DEFAULT).expect_err("not finite");
    assert!(matches!(error, EngineConfigError::Value { .. }), "{error}");
}

#[test]
fn limits_hold() {
    let bytes = EngineDetails { knobs: vec![knob(KnobValue::Int(0), None)], ..EngineDetails::default() }.encode();
    let limits = Limits { max_bytes: bytes.len() as u64 - 1, ..Limits::DEFAULT };
    assert!(matches!(EngineDetails::parse(&bytes, &limits), Err(EngineDetailsError::Limit { .. })));
    let limits = Limits { max_tables: 2, ..Limits::DEFAULT };
    assert!(matches!(EngineDetails::parse(&bytes, &limits), Err(EngineDetailsError::Damaged(_))));
    assert!(matches!(EngineDetails::parse(&[], &Limits::DEFAULT), Err(EngineDetailsError::Damaged(_))));
}
