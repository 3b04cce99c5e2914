//! What host and engine plugin tell each other: engine details and engine configs.

use super::Stage;
use crate::Rng;
use crate::shell::{Shell, patch};
use hipplan_serialize::Limits;
use hipplan_serialize::hipdnn::engine::{
    EngineConfig, EngineConfigError, EngineDetails, EngineDetailsError, KnobConstraint, KnobInfo, KnobValue,
};

/// Engine details or an engine config. Kind 0: details as they stand; 1: a config as it stands; 2: valid details, changed; 3: a valid
/// config, changed. In the last two, eight bytes make the valid one and the rest are changes.
pub(super) fn tables(input: &[u8]) -> Stage {
    let Some(shell) = Shell::of(input) else { return Stage::Form };
    let (seed, changes) = shell.rest.split_at(shell.rest.len().min(8));
    let mut rng = Rng::from_bytes(seed);
    match shell.kind % 4 {
        0 => read_details(shell.rest),
        1 => read_config(shell.rest),
        2 => {
            let mut bytes = details(&mut rng).encode();
            patch(&mut bytes, changes);
            read_details(&bytes)
        }
        _ => {
            let mut bytes = config(&mut rng).encode();
            patch(&mut bytes, changes);
            read_config(&bytes)
        }
    }
}

fn read_details(bytes: &[u8]) -> Stage {
    let details = match EngineDetails::parse(bytes, &Limits::DEFAULT) {
        Ok(details) => details,
        Err(EngineDetailsError::Damaged(_) | EngineDetailsError::Limit { .. }) => return Stage::Form,
        Err(_) => return Stage::Meaning,
    };
    assert_eq!(EngineDetails::parse(&details.encode(), &Limits::DEFAULT).as_ref(), Ok(&details));
    for knob in &details.knobs {
        for text in ["", "0", "-1", "9223372036854775808", "1e400", "0.5", "x", knob.id.as_str()] {
            // A value that is taken has one text.
            if let Ok(value) = knob.parse_value(text) {
                assert_eq!(knob.parse_value(&value.to_string()), Ok(value));
            }
        }
        assert!(!knob.expected().is_empty());
    }
    Stage::Accepted
}

fn read_config(bytes: &[u8]) -> Stage {
    match EngineConfig::parse(bytes, &Limits::DEFAULT) {
        Ok(mut config) => {
            let again = EngineConfig::parse(&config.encode(), &Limits::DEFAULT).expect("was just written");
            // Settings are written in the order of their ids.
            config.knobs.sort_by(|(a, _), (b, _)| a.cmp(b));
            assert_eq!(again, config);
            Stage::Accepted
        }
        Err(EngineConfigError::Read(_)) => Stage::Form,
        Err(_) => Stage::Meaning,
    }
}

fn details(rng: &mut Rng) -> EngineDetails {
    let knobs = (0..rng.below(4)).map(|n| knob(rng, n)).collect();
    EngineDetails {
        engine_id: rng.any() as i64,
        name: rng.one_in(2).then(|| "ENGINE".to_owned()),
        knobs,
        behavior_notes: (0..rng.below(3) as i32).collect(),
    }
}

fn knob(rng: &mut Rng, n: usize) -> KnobInfo {
    let (default, constraint) = match rng.below(3) {
        0 => (KnobValue::Int(rng.any() as i64), KnobConstraint::Int { min: -8, max: 64, step: 1 + rng.below(8) as i64, valid: vec![1, 2] }),
        1 => (KnobValue::Float(0.5), KnobConstraint::Float { min: -1.0, max: 1.0 }),
        _ => {
            let valid = (0..rng.below(3)).map(|i| format!("value {i}")).collect();
            (KnobValue::Text("value 0".to_owned()), KnobConstraint::Text { max_length: rng.below(100) as u32, valid })
        }
    };
    KnobInfo {
        id: format!("fuzz.knob.{n}"),
        description: "a knob".to_owned(),
        default,
        constraint: rng.one_in(2).then_some(constraint),
        deprecated: rng.one_in(2),
    }
}

fn config(rng: &mut Rng) -> EngineConfig {
    let value = |rng: &mut Rng| match rng.below(3) {
        0 => KnobValue::Int(rng.any() as i64),
        1 => KnobValue::Float(rng.below(100) as f64),
        _ => KnobValue::Text("a text".to_owned()),
    };
    EngineConfig { engine_id: rng.any() as i64, knobs: (0..rng.below(5)).map(|n| (format!("fuzz.knob.{n}"), value(rng))).collect() }
}
