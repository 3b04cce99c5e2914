//! Executing a plan for the commands that do: which device, its buffers, copies, and time.

use crate::output;
use anyhow::{Context, bail};
use hipplan::hip::{DeviceMemory, HipDevice, HipEvent};
use hipplan::reference::{HostTensor, InputScalar, Inputs};
use hipplan::{BoundPlan, Device, Site, Stream, Target, TensorIx, Uid, VariantPack, Workspace};
use std::time::{Duration, Instant};

/// Names the device where no option does.
const DEVICE_VARIABLE: &str = "HIPPLAN_DEVICE";

/// Where a command executes.
#[derive(Debug, clap::Args)]
pub(crate) struct DeviceOption {
    /// Device: cpu, hip (the first AMD GPU) or hip:N [default: $HIPPLAN_DEVICE, else cpu]
    #[arg(long, value_name = "DEVICE")]
    device: Option<String>,
    /// Take plans for this target, whose code the device runs [default: the best that there is]
    #[arg(long, value_name = "TARGET")]
    target: Option<Target>,
}

impl DeviceOption {
    /// The device, opened, and the targets whose plans are looked for, best first.
    pub(crate) fn open(&self) -> anyhow::Result<(Device, Vec<Target>)> {
        let device = match &self.device {
            Some(text) => Device::parse(text).with_context(|| format!("--device {}", output::name(text)))?,
            None => present()?,
        };
        let mut targets = device.targets();
        if let Some(target) = &self.target {
            let known = targets.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            // Also one that is looked up only if it is named, such as one that states one of two features.
            if let Err(reason) = target.loads_on(device.target()) {
                bail!("--target {target}: device {device} runs plans for {known}; {reason}; --device chooses another device");
            }
            targets = vec![target.clone()];
        }
        Ok((device, targets))
    }

    /// Where a graph would be compiled, and the targets whose plans a process there looks for, best first. Of a target that is only named,
    /// those of a device that reports it.
    pub(crate) fn looked_up(&self) -> anyhow::Result<(Site, Vec<Target>)> {
        if let (None, Some(target)) = (&self.device, &self.target) {
            return Ok((Site::of(target), target.candidates()));
        }
        let (device, targets) = self.open()?;
        let target = targets.first().unwrap_or(device.target()).clone();
        Ok((Site::Present(device, target), targets))
    }

    /// Where something would be compiled: on the device, or for a target that is only named.
    pub(crate) fn site(&self) -> anyhow::Result<Site> {
        match (&self.device, &self.target) {
            (None, Some(target)) => Ok(Site::of(target)),
            _ => {
                let (device, targets) = self.open()?;
                let target = targets.into_iter().next().unwrap_or_else(|| device.target().clone());
                Ok(Site::Present(device, target))
            }
        }
    }
}

/// The device that the environment names, or the CPU.
fn present() -> anyhow::Result<Device> {
    match std::env::var_os(DEVICE_VARIABLE).filter(|v| !v.is_empty()) {
        None => Ok(Device::Cpu),
        Some(text) => {
            let text = text.to_string_lossy();
            Device::parse(&text).with_context(|| format!("{DEVICE_VARIABLE}={}", output::name(&text)))
        }
    }
}

/// What the outputs of an execution are filled with before it: a NaN, or a number that no result is.
pub(crate) const POISON: u8 = 0xff;

/// A bound plan with memory for its arguments.
pub(crate) struct Session {
    bound: BoundPlan,
    memory: Memory,
    /// In place of the graph's.
    shapes: Vec<Shape>,
}

/// The shape of one tensor, in place of the graph's.
pub(crate) struct Shape {
    pub(crate) uid: Uid,
    pub(crate) dims: Vec<i64>,
    pub(crate) strides: Vec<i64>,
}

enum Memory {
    Host(Workspace),
    Hip(Box<HipMemory>),
}

struct HipMemory {
    device: HipDevice,
    workspace: DeviceMemory,
    /// By uid.
    inputs: Vec<(i64, DeviceMemory)>,
    /// By uid; made when they are first needed.
    outputs: Vec<(i64, DeviceMemory)>,
    before: HipEvent,
    after: HipEvent,
}

impl Session {
    /// Makes room on the device, and copies the inputs there.
    ///
    /// # Errors
    /// There is not enough memory, or the device fails.
    pub(crate) fn new(device: &Device, bound: BoundPlan, inputs: &Inputs) -> anyhow::Result<Self> {
        let memory = match device {
            Device::Hip(device) => {
                let copy = |input: &hipplan::reference::InputTensor| -> anyhow::Result<(i64, DeviceMemory)> {
                    Ok((input.uid.0, DeviceMemory::from_slice(device, input.tensor.bytes())?))
                };
                Memory::Hip(Box::new(HipMemory {
                    device: *device,
                    workspace: DeviceMemory::new(device, bound.workspace_size())?,
                    inputs: inputs.tensors().iter().map(copy).collect::<Result<_, _>>()?,
                    outputs: Vec::new(),
                    before: HipEvent::new(device)?,
                    after: HipEvent::new(device)?,
                }))
            }
            _ => Memory::Host(Workspace::new(bound.workspace_size())?),
        };
        Ok(Self { bound, memory, shapes: Vec::new() })
    }

    /// Executes with these shapes in place of the graph's.
    pub(crate) fn with_shapes(self, shapes: Vec<Shape>) -> Self {
        Self { shapes, ..self }
    }

    /// How [`execute`](Self::execute) takes the time.
    pub(crate) fn timed_by(&self) -> &'static str {
        match self.memory {
            Memory::Host(_) => "clock",
            Memory::Hip(_) => "events",
        }
    }

    /// Executes once, into outputs by uid, and gives the time that it took: on a GPU, between events around the kernels.
    ///
    /// On a GPU the outputs are copied there before, so that what no kernel writes comes back as it was, and the workspace is poisoned.
    /// The inputs are those that the session was made with.
    ///
    /// # Errors
    /// What the plan or the device reports.
    pub(crate) fn execute<'t>(
        &mut self,
        inputs: &Inputs,
        overridden: &[TensorIx],
        outputs: impl Iterator<Item = (i64, &'t mut HostTensor)>,
    ) -> anyhow::Result<Duration> {
        let mut pack = VariantPack::new();
        for scalar in inputs.scalars() {
            add_scalar(&mut pack, scalar, overridden);
        }
        for Shape { uid, dims, strides } in &self.shapes {
            pack.override_shape(uid.0, dims, strides);
        }
        let memory = match &mut self.memory {
            Memory::Hip(memory) => memory,
            Memory::Host(workspace) => {
                for input in inputs.tensors() {
                    pack.input(input.uid.0, input.tensor.bytes());
                }
                for (uid, tensor) in outputs {
                    pack.output(uid, tensor.bytes_mut());
                }
                let start = Instant::now();
                self.bound.execute(&pack, workspace.as_mut_slice(), Stream::Default)?;
                return Ok(start.elapsed());
            }
        };
        let mut outputs: Vec<(i64, &mut HostTensor)> = outputs.collect();
        for (uid, tensor) in &outputs {
            match memory.outputs.iter_mut().find(|(known, _)| known == uid) {
                Some((_, on_device)) => on_device.copy_from_host(0, tensor.bytes())?,
                None => memory.outputs.push((*uid, DeviceMemory::from_slice(&memory.device, tensor.bytes())?)),
            }
        }
        memory.workspace.fill(POISON)?;
        for (uid, on_device) in &memory.inputs {
            pack.device_input(*uid, on_device);
        }
        for (uid, on_device) in &mut memory.outputs {
            pack.device_output(*uid, on_device);
        }
        memory.before.record(Stream::Default)?;
        self.bound.execute(&pack, &mut memory.workspace, Stream::Default)?;
        memory.after.record(Stream::Default)?;
        memory.after.synchronize()?;
        let milliseconds = memory.before.elapsed_ms(&memory.after)?;
        drop(pack);
        for (uid, tensor) in &mut outputs {
            if let Some((_, on_device)) = memory.outputs.iter().find(|(known, _)| known == uid) {
                on_device.copy_to_host(0, tensor.bytes_mut())?;
            }
        }
        Ok(Duration::from_secs_f64(f64::from(milliseconds.max(0.0)) / 1e3))
    }
}

fn add_scalar(pack: &mut VariantPack<'_>, scalar: &InputScalar, overridden: &[TensorIx]) {
    if overridden.contains(&scalar.ix) {
        pack.override_value(scalar.uid.0, scalar.value);
    } else if !scalar.is_default {
        pack.scalar_value(scalar.uid.0, scalar.value);
    }
}
