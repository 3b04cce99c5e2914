//! Tensors that a caller keeps a hand on while the graph is built, as hipDNN's frontend hands them out (R16 §4.8).

use crate::DataType;
use crate::attributes::{AttributeError, AttributeValue};
use crate::builder::TensorAttributes;
use crate::ops::Uid;
use crate::scalar::Scalar;
use crate::wire::tensor_value::TensorValue;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A tensor of a [`GraphBuilder`](crate::GraphBuilder) that can be changed until the graph is built. Clones are one tensor.
///
/// `build` takes what the handle says at that moment. From then on the setters change only the handle: the graph, its key and every
/// plan made of it stay as they are, and the first setter that is called logs one warning (`tracing`, level warn). A build that
/// fails ends the handle's influence too, because the builder is gone.
///
/// The uid is not among the setters: nodes name the tensor by it.
///
/// A mutex, not a `RefCell`, so that a graph can be described on one thread and built on another, as with hipDNN's shared pointers.
/// It is taken by the methods of the handle and once by `build`; no graph, key or plan knows of it.
#[derive(Clone, Debug)]
pub struct TensorHandle {
    uid: Uid,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    tensor: TensorAttributes,
    is_built: bool,
    has_warned: bool,
}

macro_rules! setters {
    ($($name:ident($($arg:ident: $ty:ty),*);)+) => { $(
        #[doc = concat!("[`TensorAttributes::", stringify!($name), "`], until the graph is built.")]
        pub fn $name(&self, $($arg: $ty),*) -> &Self {
            self.set(|t| { t.$name($($arg),*); });
            self
        }
    )+ };
}

impl TensorHandle {
    pub(crate) fn new(uid: Uid, tensor: TensorAttributes) -> Self {
        Self { uid, state: Arc::new(Mutex::new(State { tensor, is_built: false, has_warned: false })) }
    }

    /// The uid by which nodes name the tensor.
    pub fn uid(&self) -> Uid {
        self.uid
    }

    /// The attributes as they are now. After `build` they may differ from those of the graph.
    pub fn attributes(&self) -> TensorAttributes {
        self.lock().tensor.clone()
    }

    /// The graph has been built: setters no longer reach it.
    pub fn is_built(&self) -> bool {
        self.lock().is_built
    }

    /// [`TensorAttributes::set_name`], until the graph is built.
    pub fn set_name(&self, name: impl Into<String>) -> &Self {
        // Converted before the lock is taken: the conversion is the caller's code.
        let name: String = name.into();
        self.set(|t| {
            t.set_name(name);
        });
        self
    }

    setters! {
        set_data_type(dtype: DataType);
        set_dims(dims: &[i64]);
        set_strides(strides: &[i64]);
        set_virtual(is_virtual: bool);
        set_alignment(alignment: i64);
        set_ragged_offset(uid: Option<Uid>);
        set_ragged_multiplier(multiplier: i64);
        set_value(value: impl Scalar);
        set_compile_time_constant(value: Option<TensorValue>);
        set_as_runtime_parameter();
        set_is_pass_by_value(is_runtime: bool);
    }

    /// [`TensorAttributes::get_attribute`].
    ///
    /// # Errors
    /// An unknown number.
    pub fn get_attribute(&self, id: i32) -> Result<AttributeValue, AttributeError> {
        self.lock().tensor.get_attribute(id)
    }

    /// [`TensorAttributes::set_attribute`], until the graph is built.
    ///
    /// # Errors
    /// An unknown number, a read-only attribute, or a value of the wrong kind.
    pub fn set_attribute(&self, id: i32, value: AttributeValue) -> Result<(), AttributeError> {
        self.set(|t| t.set_attribute(id, value))
    }

    /// What the graph is built of. Taken and marked under one lock: a setter on another thread either comes before, or warns.
    pub(crate) fn freeze(&self) -> TensorAttributes {
        let mut state = self.lock();
        state.is_built = true;
        state.tensor.clone()
    }

    fn set<R>(&self, change: impl FnOnce(&mut TensorAttributes) -> R) -> R {
        let mut state = self.lock();
        let result = change(&mut state.tensor);
        let warns = state.is_built && !state.has_warned;
        state.has_warned |= warns;
        let name = if warns { state.tensor.name().to_owned() } else { String::new() };
        // The subscriber is the caller's code: it must not run under the lock.
        drop(state);
        if warns {
            tracing::warn!(
                uid = self.uid.0,
                name,
                "tensor set after its graph was built; the built graph and its plans do not change (this is said once per tensor)"
            );
        }
        result
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code of a caller runs under the lock, and every setter leaves a whole tensor.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
