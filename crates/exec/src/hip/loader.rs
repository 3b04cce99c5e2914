//! The executing half of the `hip` provider.

use super::check;
use super::device::HipDevice;
use super::executable::HipExecutable;
use super::module::Module;
use crate::loader::{Executable, Loader};
use crate::{CodeObjects, Device, ExecError};
use hipplan_serialize::plan::{PayloadView, PlanView};
use hipplan_serialize::{ContentHash, Digest};
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Payload kind of the `hip` provider.
pub const HIP_PAYLOAD_KIND: &str = "hip";
/// Payload version that the `hip` provider writes: the layout and meaning of [`HipProgram`](super::HipProgram).
pub const HIP_PAYLOAD_VERSION: u32 = 1;

/// The executing half of the `hip` provider: the body is a [`HipProgram`](super::HipProgram), archived by rkyv.
#[derive(Clone, Copy, Debug, Default)]
pub struct HipLoader;

impl Loader for HipLoader {
    fn kind(&self) -> &'static str {
        HIP_PAYLOAD_KIND
    }

    fn versions(&self) -> RangeInclusive<u32> {
        HIP_PAYLOAD_VERSION..=HIP_PAYLOAD_VERSION
    }

    fn load(
        &self,
        plan: &PlanView<'_>,
        payload: &PayloadView<'_>,
        device: &Device,
        code_objects: &dyn CodeObjects,
    ) -> Result<Box<dyn Executable>, ExecError> {
        let Device::Hip(device) = device else {
            return Err(ExecError::LoaderDevice { kind: HIP_PAYLOAD_KIND, device: device.to_string() });
        };
        let (_, checked) = check::read(payload.body(), plan.meta())?;
        let mut modules = vec![None; plan.meta().code_objects.len()];
        let mut functions = Vec::with_capacity(checked.kernels.len());
        for kernel in &checked.kernels {
            // `check` has shown that the position is one of the metadata's.
            let (slot, named) = (&mut modules[kernel.code_object], &plan.meta().code_objects[kernel.code_object]);
            let module = match slot {
                Some(module) => module,
                None => {
                    let digest = Digest { hash: ContentHash(named.hash), size: named.size.to_native() };
                    slot.insert(load(device, &digest, code_objects)?)
                }
            };
            functions.push(module.function(kernel)?);
        }
        Ok(Box::new(HipExecutable::new(device, modules.into_iter().flatten().collect(), &functions, checked)))
    }
}

fn load(device: &HipDevice, digest: &Digest, code_objects: &dyn CodeObjects) -> Result<Arc<Module>, ExecError> {
    device.module(digest, || {
        let (hash, size) = (digest.hash.to_string(), digest.size);
        code_objects.code_object(digest).map_err(|reason| ExecError::CodeObject { hash, size, reason })
    })
}
