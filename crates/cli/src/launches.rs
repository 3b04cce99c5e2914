//! What a plan of the `hip` provider launches: read, checked against its code objects, told, and written to files that anyone can run.
//!
//! `docs/format.md` describes the files.

use crate::{Global, files, location, output, subject};
use anyhow::{Context, bail, ensure};
use hipplan::code_object::KernelInfo;
use hipplan::hip::{
    HIP_PAYLOAD_KIND, HIP_PAYLOAD_VERSION, HipProgram, HipTensor, Launch, PatchSource, ScalarType as KernelScalar, TensorPlace,
};
use hipplan::plan::{BindingKind, PayloadView};
use hipplan::{AlignedBytes, CodeObject, ContentHash, Digest, Lookup, PlanView, Target};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;

/// Name and version of the format of the files.
const FORMAT: &str = "hipplan-launches";
const VERSION: u32 = 1;
/// The file that lists the others, written last.
const LIST: &str = "launches.json";
const GRAPH: &str = "graph.bin";
/// Largest list of an earlier extract that is read.
const MAX_LIST: u64 = 1 << 30;

/// The launches of a plan, checked, with the code objects that could be had.
pub(crate) struct Launches<'p> {
    plan: &'p PlanView<'p>,
    payload: PayloadView<'p>,
    program: HipProgram,
    objects: Vec<Object>,
}

/// A code object that a plan names.
pub(crate) struct Object {
    digest: Digest,
    /// Its bytes, or why the store does not give them.
    bytes: Result<AlignedBytes, String>,
}

impl Object {
    fn file(&self) -> String {
        format!("{}.co", &self.digest.hash.to_string()[..16])
    }

    /// What its note says; nothing for an object of a test target, which is no AMD code object.
    fn read(&self, target: &str) -> Option<Result<CodeObject<'_>, String>> {
        let is_amd = matches!(target.parse(), Ok(Target::Amd(_)));
        match &self.bytes {
            Err(reason) => Some(Err(reason.clone())),
            Ok(_) if !is_amd => None,
            Ok(bytes) => Some(CodeObject::read(bytes).map_err(|e| e.to_string())),
        }
    }
}

/// The code objects that a plan names, from the store.
pub(crate) fn objects(global: &Global, plan: &PlanView<'_>) -> Vec<Object> {
    let named: Vec<Digest> =
        plan.meta().code_objects.iter().map(|c| Digest { hash: ContentHash(c.hash), size: c.size.to_native() }).collect();
    if named.is_empty() {
        return Vec::new();
    }
    let store = location::readable(global).map_err(|e| format!("{e:#}"));
    let bytes = |digest: &Digest| match store.as_ref().map(|store| (store, store.get_blob(digest))) {
        Ok((_, Lookup::Hit(blob))) => Ok(blob.into_aligned()),
        Ok((store, Lookup::Miss(miss))) => Err(format!("the {}: {miss}", location::place(store))),
        Err(reason) => Err(reason.clone()),
    };
    named.into_iter().map(|digest| Object { bytes: bytes(&digest), digest }).collect()
}

/// The code objects of a plan as JSON.
pub(crate) fn objects_json(plan: &PlanView<'_>, objects: &[Object]) -> Value {
    let target = plan.meta().target.as_str();
    let row = |object: &Object| {
        let mut value = json!({ "hash": object.digest.hash.to_string(), "bytes": object.digest.size });
        match object.read(target) {
            None => {}
            Some(Err(reason)) => value["problem"] = reason.into(),
            Some(Ok(read)) => {
                value["target"] = read.target.to_string().into();
                value["version"] = read.version.into();
                value["kernels"] = read.kernels.iter().map(kernel_json).collect();
            }
        }
        value
    };
    objects.iter().map(row).collect()
}

fn kernel_json(kernel: &KernelInfo<'_>) -> Value {
    json!({
        "name": kernel.name, "kernarg_size": kernel.kernarg_size, "max_block": kernel.max_workgroup_size, "wavefront": kernel.wavefront_size,
        "sgprs": kernel.sgprs, "vgprs": kernel.vgprs, "agprs": kernel.agprs, "lds": kernel.lds_size, "scratch": kernel.private_size,
        "code_bytes": kernel.code.end - kernel.code.start,
    })
}

/// Prints the code objects of a plan.
pub(crate) fn print_objects(plan: &PlanView<'_>, objects: &[Object]) -> anyhow::Result<()> {
    let target = plan.meta().target.as_str();
    let mut table = output::table(&["code object", ">size", "target", "kernels"]);
    let mut problems = Vec::new();
    for object in objects {
        let (built_for, kernels) = match object.read(target) {
            None => (target.to_owned(), "not told by objects of test targets".to_owned()),
            Some(Ok(read)) => {
                let names: Vec<String> = read.kernels.iter().map(|k| output::name(k.name)).collect();
                (read.target.to_string(), names.join(", "))
            }
            Some(Err(reason)) => {
                problems.push(format!("code object {}: {reason}", object.digest.hash));
                (String::new(), "not read".to_owned())
            }
        };
        table.add_row([
            object.digest.hash.to_string()[..16].to_owned(),
            output::bytes(object.digest.size),
            output::name(&built_for),
            kernels,
        ]);
    }
    output::print_table(&table, |_| None)?;
    warn(&problems)
}

fn warn(problems: &[String]) -> anyhow::Result<()> {
    for problem in problems {
        output::line(format_args!("{}warning:{} {}", output::WARN, output::RESET, output::name(problem)))?;
    }
    Ok(())
}

impl<'p> Launches<'p> {
    /// Reads the program of a plan.
    ///
    /// # Errors
    /// The plan is of another provider, or its program is damaged. A code object that cannot be had is a [problem](Self::problems).
    pub(crate) fn read(global: &Global, plan: &'p PlanView<'p>) -> anyhow::Result<Self> {
        let head = plan.payload()?;
        ensure!(
            head.kind() == HIP_PAYLOAD_KIND,
            "the payload is of kind {:?}: only plans of the hip provider have launches",
            output::name(head.kind())
        );
        let payload = head.accept(HIP_PAYLOAD_KIND, HIP_PAYLOAD_VERSION, HIP_PAYLOAD_VERSION)?;
        let program = HipProgram::read(payload.body(), plan.meta()).context("the program of the plan is damaged")?;
        Ok(Self { plan, payload, program, objects: objects(global, plan) })
    }

    /// What is wrong with the code objects: not there, damaged, or not what the program says.
    pub(crate) fn problems(&self) -> Vec<String> {
        let target = self.plan.meta().target.as_str();
        let mut problems = Vec::new();
        let read: Vec<_> = self.objects.iter().map(|object| object.read(target)).collect();
        for (object, read) in self.objects.iter().zip(&read) {
            match read {
                Some(Err(reason)) => problems.push(format!("code object {}: {reason}", object.digest.hash)),
                Some(Ok(read)) if read.target.to_string() != target => {
                    problems.push(format!("code object {}: built for {}, the plan is for {target}", object.digest.hash, read.target));
                }
                _ => {}
            }
        }
        for kernel in &self.program.kernels {
            let Some(Some(Ok(object))) = read.get(kernel.code_object as usize) else { continue };
            let Some(info) = object.kernel(&kernel.name) else {
                problems.push(format!("kernel {:?}: its code object has no kernel of that name", kernel.name));
                continue;
            };
            // What rounds the struct up may stand behind it.
            let most = kernel.kernarg_size.checked_next_multiple_of(info.kernarg_align).unwrap_or(u32::MAX);
            if !(kernel.kernarg_size..=most).contains(&info.kernarg_size) {
                let (found, expected) = (info.kernarg_size, kernel.kernarg_size);
                problems.push(format!("kernel {:?}: the code takes {found} bytes of kernarg, the program gives {expected}", kernel.name));
            }
            if info.max_workgroup_size < kernel.block {
                let (found, expected) = (info.max_workgroup_size, kernel.block);
                problems.push(format!("kernel {:?}: the code is for blocks of {found} threads, the program says {expected}", kernel.name));
            }
        }
        problems
    }

    /// Prints a line for each launch.
    pub(crate) fn print(&self) -> anyhow::Result<()> {
        let meta = self.plan.meta();
        let title = format!("plan {}", meta.plan_key());
        output::line(format_args!("{}{title}{}", output::STRONG, output::RESET))?;
        output::line(format_args!("target      {}", output::name(meta.target.as_str())))?;
        output::line(format_args!("workspace   {}", output::bytes(self.program.workspace_size)))?;
        output::line("")?;
        let target = meta.target.as_str();
        let read: Vec<_> = self.objects.iter().map(|object| object.read(target)).collect();
        let headings = [">launch", "kernel", "grid", ">block", ">kernarg", ">wave", ">SGPRs", ">VGPRs", ">AGPRs", ">LDS", "code object"];
        let mut table = output::table(&headings);
        for (at, launch) in self.program.launches.iter().enumerate() {
            let kernel = &self.program.kernels[launch.kernel as usize];
            let info = match read.get(kernel.code_object as usize) {
                Some(Some(Ok(object))) => object.kernel(&kernel.name),
                _ => None,
            };
            let [x, y, z] = launch.grid;
            let [wave, sgprs, vgprs, agprs, lds] = match info {
                Some(k) => [k.wavefront_size, k.sgprs, k.vgprs, k.agprs, k.lds_size].map(|n| n.to_string()),
                None => [const { String::new() }; 5],
            };
            let object = self.objects.get(kernel.code_object as usize).map(Object::file).unwrap_or_default();
            let row = [at.to_string(), output::name(&kernel.name), format!("{x}x{y}x{z}"), kernel.block.to_string()];
            table.add_row(row.into_iter().chain([kernel.kernarg_size.to_string(), wave, sgprs, vgprs, agprs, lds, object]));
        }
        output::print_table(&table, |_| None)?;
        warn(&self.problems())
    }

    /// The list of the format, and for each launch what its code object says of it.
    pub(crate) fn to_json(&self) -> anyhow::Result<Value> {
        let target = self.plan.meta().target.as_str();
        let read: Vec<_> = self.objects.iter().map(|object| object.read(target)).collect();
        let mut value = self.list()?;
        for (at, launch) in self.program.launches.iter().enumerate() {
            let kernel = &self.program.kernels[launch.kernel as usize];
            value["launches"][at]["code"] = match read.get(kernel.code_object as usize) {
                Some(Some(Ok(object))) => object.kernel(&kernel.name).map(kernel_json).into(),
                _ => Value::Null,
            };
        }
        value["problems"] = self.problems().into();
        Ok(value)
    }

    /// Writes all that it takes to launch the plan into a folder: each file whole or not at all, the list last.
    ///
    /// # Errors
    /// A code object is missing or not what the program says; the folder holds something else; a file cannot be written.
    pub(crate) fn extract(&self, folder: &Path) -> anyhow::Result<()> {
        if let [first, rest @ ..] = self.problems().as_slice() {
            let more = if rest.is_empty() { String::new() } else { format!(" (and {} more)", rest.len()) };
            bail!("not extracted: {first}{more}");
        }
        let list = serde_json::to_vec_pretty(&self.list()?)?;
        let graph = subject::graph_of_plan(self.plan)?;
        let stale = prepare(folder)?;
        let mut written = BTreeSet::from([GRAPH.to_owned()]);
        for object in &self.objects {
            let bytes = object.bytes.as_ref().map_err(|e| anyhow::anyhow!("{e}"))?;
            if written.insert(object.file()) {
                files::write(&folder.join(object.file()), bytes)?;
            }
        }
        for (at, launch) in self.program.launches.iter().enumerate() {
            files::write(&folder.join(kernarg_file(at)), &self.kernarg(launch)?)?;
            written.insert(kernarg_file(at));
        }
        files::write(&folder.join(GRAPH), graph.buffer())?;
        files::write(&folder.join(LIST), &list)?;
        for name in stale.difference(&written) {
            let path = folder.join(name);
            if let Err(error) = std::fs::remove_file(&path)
                && error.kind() != std::io::ErrorKind::NotFound
            {
                return Err(error).with_context(|| output::path(&path));
            }
        }
        Ok(())
    }

    /// The list of the format.
    fn list(&self) -> anyhow::Result<Value> {
        let (meta, program) = (self.plan.meta(), &self.program);
        let object = |o: &Object| json!({ "file": o.file(), "size": o.digest.size, "digest": o.digest.hash.to_string() });
        let launch = |(at, launch): (usize, &Launch)| {
            let kernel = &program.kernels[launch.kernel as usize];
            let patches = program.patches[range(launch.patches_at, launch.patches)].iter().map(|patch| {
                let write = match patch.source {
                    PatchSource::Address => "address",
                    PatchSource::Value(KernelScalar::F32) => "f32",
                    PatchSource::Value(KernelScalar::F64) => "f64",
                };
                json!({ "offset": patch.offset, "tensor": patch.tensor, "write": write })
            });
            json!({
                "kernel": kernel.name, "code_object": kernel.code_object, "grid": launch.grid, "block": kernel.block,
                "kernarg": kernarg_file(at), "kernarg_size": kernel.kernarg_size, "patches": patches.collect::<Vec<_>>(),
            })
        };
        let files: BTreeSet<(String, String)> = self.objects.iter().map(|o| (o.file(), o.digest.hash.to_string())).collect();
        let names: BTreeSet<&String> = files.iter().map(|(file, _)| file).collect();
        ensure!(names.len() == files.len(), "two code objects of the plan have digests that start alike");
        Ok(json!({
            "format": FORMAT,
            "version": VERSION,
            "target": meta.target.as_str(),
            "graph_key": meta.graph_key().to_string(),
            "plan_key": meta.plan_key().to_string(),
            "engine_revision": meta.engine_revision.as_str(),
            "workspace_size": program.workspace_size,
            "tensors": program.tensors.iter().map(|t| self.tensor(t)).collect::<Vec<_>>(),
            "code_objects": self.objects.iter().map(object).collect::<Vec<_>>(),
            "launches": program.launches.iter().enumerate().map(launch).collect::<Vec<_>>(),
        }))
    }

    fn tensor(&self, tensor: &HipTensor) -> Value {
        let mut value = json!({ "bytes": tensor.bytes, "written": tensor.written });
        let (place, ordinal) = match tensor.place {
            TensorPlace::Workspace { offset } => {
                value["place"] = "workspace".into();
                value["offset"] = offset.into();
                return value;
            }
            TensorPlace::External { ordinal } => ("external", ordinal),
            TensorPlace::Scalar { ordinal } => ("scalar", ordinal),
        };
        value["place"] = place.into();
        value["ordinal"] = ordinal.into();
        // Reading the program has shown that there is one.
        if let Some(b) = self.plan.meta().bindings.iter().find(|b| b.ordinal.to_native() == ordinal) {
            value["kind"] = b.kind().name().into();
            value["dtype"] = b.dtype().name().into();
            value["dims"] = b.dims.iter().map(|d| d.to_native()).collect();
            value["strides"] = b.strides.iter().map(|s| s.to_native()).collect();
        }
        value
    }

    /// The kernarg of a launch: the template, with the values of constants and of scalars with a default in place.
    fn kernarg(&self, launch: &Launch) -> anyhow::Result<Vec<u8>> {
        let program = &self.program;
        let size = program.kernels[launch.kernel as usize].kernarg_size;
        let mut bytes = program.kernargs[range(launch.kernarg_at, size)].to_vec();
        for patch in &program.patches[range(launch.patches_at, launch.patches)] {
            let (PatchSource::Value(ty), TensorPlace::Scalar { ordinal }) = (patch.source, program.tensors[patch.tensor as usize].place)
            else {
                continue;
            };
            let binding = self.plan.meta().bindings.iter().find(|b| b.ordinal.to_native() == ordinal);
            let Some(b) = binding.filter(|b| matches!(b.kind(), BindingKind::Constant | BindingKind::DefaultedScalar)) else { continue };
            let baked = self.payload.baked().find(|baked| baked.uid == i64::from(ordinal));
            let value = baked.and_then(|baked| ty.bytes_of(baked.value, b.dtype()));
            let value =
                value.with_context(|| format!("ordinal {ordinal}: the payload has no value of type {} for this scalar", b.dtype()))?;
            bytes[range(patch.offset, value.len() as u32)].copy_from_slice(&value);
        }
        Ok(bytes)
    }
}

/// A range that the check of the program has found within what it is a range of.
fn range(start: u32, count: u32) -> Range<usize> {
    start as usize..start as usize + count as usize
}

fn kernarg_file(launch: usize) -> String {
    format!("launch-{launch}.kernarg")
}

/// Makes the folder if need be. Gives the files of an earlier extract in it; another folder must be empty.
fn prepare(folder: &Path) -> anyhow::Result<BTreeSet<String>> {
    std::fs::create_dir_all(folder).with_context(|| output::path(folder))?;
    let entries = std::fs::read_dir(folder).with_context(|| output::path(folder))?;
    let mut names = BTreeSet::new();
    for entry in entries {
        names.insert(entry.with_context(|| output::path(folder))?.file_name().to_string_lossy().into_owned());
    }
    let is_extract = || {
        let list = folder.join(LIST);
        let size = std::fs::symlink_metadata(&list).ok().filter(|m| m.is_file())?.len();
        let bytes = std::fs::read(&list).ok().filter(|_| size <= MAX_LIST)?;
        let value: Value = serde_json::from_slice(&bytes).ok()?;
        (value["format"] == FORMAT).then_some(())
    };
    ensure!(
        names.is_empty() || is_extract().is_some(),
        "{}: the folder holds something else than an earlier extract; name another, or one that is empty",
        output::path(folder)
    );
    names.retain(|name| is_own(name));
    Ok(names)
}

/// Whether an extract has files of this name beside its list.
fn is_own(name: &str) -> bool {
    let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    let is_hex = |digits: &str| digits.len() == 16 && digits.bytes().all(|b| b.is_ascii_hexdigit());
    name == GRAPH
        || name.strip_suffix(".co").is_some_and(is_hex)
        || name.strip_prefix("launch-").and_then(|rest| rest.strip_suffix(".kernarg")).is_some_and(is_number)
}
