//! hipDNN's attribute numbers of by-value tensors (R16 §4.1, §9), in every state and through a round trip.

use hipplan_serialize::{
    AttributeError, AttributeValue, DataType, GraphBuilder, ScalarType, TensorAttribute, TensorAttributes, TensorValue, Uid, ops,
};

const VALUE: i32 = 1306;
const IS_BY_VALUE: i32 = 1307;
const IS_RUNTIME: i32 = 1308;

/// Ordinary, constant, runtime with default, runtime: with what 1306, 1307, 1308 and the umbrella say.
fn states() -> [(TensorAttributes, Option<TensorValue>, bool, bool, bool); 4] {
    let ordinary = TensorAttributes::packed(DataType::Float, &[1]);
    let mut runtime = ordinary.clone();
    runtime.set_as_runtime_parameter();
    let v = TensorValue::Float32(0.5);
    [
        (ordinary, None, false, false, false),
        (TensorAttributes::scalar(0.5_f32), Some(v), true, false, true),
        (TensorAttributes::scalar_of(0.5_f32, ScalarType::RuntimeParam), Some(v), true, true, true),
        (runtime, None, false, true, true),
    ]
}

#[test]
fn the_numbers_are_hipdnns() {
    assert_eq!(TensorAttribute::ALL.iter().map(|a| a.id()).collect::<Vec<_>>(), [VALUE, IS_BY_VALUE, IS_RUNTIME]);
    assert_eq!(TensorAttribute::CONSTANT_VALUE.id(), VALUE);
    for &attribute in TensorAttribute::ALL {
        assert_eq!(TensorAttribute::from_id(attribute.id()), Ok(attribute));
    }
    for id in [0, -1, 1305, 1309, i32::MAX, i32::MIN] {
        assert_eq!(TensorAttribute::from_id(id), Err(AttributeError::Unknown { id }));
        let mut t = TensorAttributes::new();
        assert_eq!(t.get_attribute(id), Err(AttributeError::Unknown { id }));
        assert_eq!(t.set_attribute(id, AttributeValue::Flag(true)), Err(AttributeError::Unknown { id }));
        assert_eq!(t, TensorAttributes::new());
    }
}

#[test]
fn every_state_reads_as_the_rfc_says_before_and_after_a_round_trip() {
    let mut g = GraphBuilder::new();
    let inputs: Vec<Uid> = states().into_iter().map(|(t, ..)| g.tensor(t)).collect();
    let outputs = [g.tensor(TensorAttributes::packed(DataType::Float, &[4]))];
    g.node("", DataType::Float, ops::CustomOp { custom_op_id: "t.t", inputs: &inputs, outputs: &outputs, data: &[] });
    let graph = g.build().expect("valid");
    let view = graph.view();
    for ((tensor, value, has_value, is_runtime, umbrella), uid) in states().into_iter().zip(inputs) {
        assert_eq!(tensor.get_attribute(VALUE), Ok(AttributeValue::Scalar(value)));
        assert_eq!(tensor.get_attribute(IS_BY_VALUE), Ok(AttributeValue::Flag(has_value)));
        assert_eq!(tensor.get_attribute(IS_RUNTIME), Ok(AttributeValue::Flag(is_runtime)));
        assert_eq!(tensor.get_is_pass_by_value(), umbrella);
        let read = view.tensor(view.find(uid).expect("there"));
        for id in [VALUE, IS_BY_VALUE, IS_RUNTIME] {
            assert_eq!(read.get_attribute(id), tensor.get_attribute(id));
        }
        assert_eq!(read.is_by_value(), umbrella);
        assert_eq!(read.get_attribute(7), Err(AttributeError::Unknown { id: 7 }));
    }
}

#[test]
fn copying_the_stored_attributes_copies_the_state_in_either_order() {
    for (from, ..) in states() {
        for order in [[VALUE, IS_RUNTIME], [IS_RUNTIME, VALUE]] {
            let mut to = TensorAttributes::packed(DataType::Float, &[1]);
            for id in order {
                to.set_attribute(id, from.get_attribute(id).expect("known")).expect("settable");
            }
            assert_eq!(to, from);
        }
    }
}

#[test]
fn a_setter_changes_one_thing() {
    let v = TensorValue::Int64(-7);
    for (from, _, _, is_runtime, _) in states() {
        let mut t = from.clone();
        t.set_attribute(VALUE, v.into()).expect("settable");
        assert_eq!((t.get_value_variant(), t.get_is_runtime_pass_by_value()), (Some(v), is_runtime), "the flag stays");
        assert_eq!((t.data_type(), t.dims()), (from.data_type(), from.dims()), "type and dims stay");

        let mut t = from.clone();
        t.set_attribute(IS_RUNTIME, (!is_runtime).into()).expect("settable");
        assert_eq!(t.get_is_runtime_pass_by_value(), !is_runtime);
        assert_eq!(t.get_value_variant(), from.get_value_variant(), "the value stays");

        // What must not be set leaves the tensor as it was; so does the empty value.
        let mut t = from.clone();
        let read_only = Err(AttributeError::ReadOnly { attribute: TensorAttribute::IsByValue });
        assert_eq!(t.set_attribute(IS_BY_VALUE, true.into()), read_only);
        assert_eq!(t.set_attribute(IS_BY_VALUE, v.into()), read_only);
        assert!(matches!(t.set_attribute(VALUE, true.into()), Err(AttributeError::Type { expected: "a scalar", .. })));
        assert!(matches!(t.set_attribute(IS_RUNTIME, v.into()), Err(AttributeError::Type { expected: "a flag", .. })));
        assert_eq!(t.set_attribute(VALUE, AttributeValue::Scalar(None)), Ok(()));
        assert_eq!(t, from);
    }
}

#[test]
fn errors_say_what_to_do() {
    let text = AttributeError::ReadOnly { attribute: TensorAttribute::IsByValue }.to_string();
    assert!(text.contains("1307") && text.contains("HIPDNN_ATTR_TENSOR_IS_BY_VALUE") && text.contains("1308"), "{text}");
    assert!(AttributeError::Unknown { id: 42 }.to_string().contains("42"));
}
