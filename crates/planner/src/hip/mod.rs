//! The compiling half of the `hip` provider: kernels for AMD GPUs, compiled on any machine.
//!
//! ```text
//! graph -> groups (fuse) -> work (shape, epilogue) -> variant (cost model) -> kernel texts and launches (text, emit) -> code objects (compiler)
//! ```
//!
//! * [`compiler`]: the compilers of kernels, behind one trait.
//! * `nest`, `shape`: every operation as a loop nest; convolutions of all directions, products and reductions differ in numbers only.
//! * `work`, `epilogue`: what one kernel computes.
//! * `variant`, `emit`, `text`: which kernel, how it is cut, and its text.
//! * `lower`: the program of a graph.
//!
//! The kernels themselves are the files of `crates/planner/kernels`.

mod arguments;
pub mod compiler;
mod emit;
mod epilogue;
mod lower;
mod nest;
mod pointwise;
mod shape;
mod text;
mod variant;
mod work;

use crate::compile::CompileError;
use crate::provider::{Compiled, Compiler, Offer, ProviderIdentity, Refusal, Site, ToolUse};
use compiler::{CachedCompiler, Clang, Hiprtc, KernelCompileError, KernelCompiler, KernelSource};
use hipplan_exec::hip::{HIP_PAYLOAD_KIND, HIP_PAYLOAD_VERSION, HipProgram};
use hipplan_serialize::{ApiVersion, Target, VerifiedGraph};
use lower::Lowered;
use std::sync::OnceLock;

/// Name of the provider's engine.
pub const HIP_ENGINE: &str = "HIPPLAN_HIP";
/// Raised when plans are to be compiled again although neither their kernels' texts nor their launches have changed: those are hashed.
const HIP_ENGINE_REVISION: &str = "2";

/// The compiling half of the `hip` provider.
///
/// Runtime scalars are kernel arguments and never folded, so none is declined for being runtime (R16 §4.6). Sums are made in a fixed
/// order: results do not change from run to run.
pub struct HipCompiler {
    /// In order of preference.
    compilers: Vec<Candidate>,
}

/// A compiler that may be there: looked for when the ones before it will not do, because looking starts processes.
struct Candidate {
    found: OnceLock<Found>,
    find: fn() -> Found,
}

/// A compiler with a memory, so that plans share kernels; or why there is none.
type Found = Result<CachedCompiler<Box<dyn KernelCompiler>>, String>;

impl Candidate {
    fn get(&self) -> &Found {
        self.found.get_or_init(self.find)
    }
}

impl Default for HipCompiler {
    /// A provider that compiles with the `clang` of this machine, and with ROCm's hiprtc for what that does not have.
    fn default() -> Self {
        fn found<C: KernelCompiler + 'static>(found: Result<C, KernelCompileError>) -> Found {
            found.map(|compiler| CachedCompiler::new(Box::new(compiler) as Box<dyn KernelCompiler>)).map_err(|error| error.to_string())
        }
        let finders: [fn() -> Found; 2] = [|| found(Clang::find()), || found(Hiprtc::find())];
        Self { compilers: finders.into_iter().map(|find| Candidate { found: OnceLock::new(), find }).collect() }
    }
}

impl std::fmt::Debug for HipCompiler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HipCompiler")
    }
}

impl HipCompiler {
    /// A provider that compiles with the first of these that has the target.
    pub fn new(compilers: Vec<Box<dyn KernelCompiler>>) -> Self {
        let none: fn() -> Found = || Err("there is no kernel compiler".to_owned());
        let there = |compiler| Candidate { found: OnceLock::from(Ok(CachedCompiler::new(compiler))), find: none };
        Self { compilers: compilers.into_iter().map(there).collect() }
    }

    fn compiler_for(&self, target: &Target) -> Result<&dyn KernelCompiler, Refusal> {
        if *target == Target::Cpu {
            return Err(Refusal::Target("compiles for AMD GPUs, not for cpu".to_owned()));
        }
        let mut reasons = Vec::new();
        for candidate in &self.compilers {
            match candidate.get() {
                Ok(compiler) => match compiler.supports(target) {
                    Ok(()) => return Ok(compiler),
                    Err(reason) => reasons.push(format!("{}: {reason}", compiler.identity())),
                },
                Err(missing) => reasons.push(missing.clone()),
            }
        }
        Err(Refusal::Target(match reasons.as_slice() {
            [] => "there is no kernel compiler".to_owned(),
            some => some.join("; "),
        }))
    }
}

/// The program of a canonical graph, and the text of each of its kernels: what a plan is made of before anything is compiled.
///
/// # Errors
/// What the provider does not have.
pub fn kernels(graph: &VerifiedGraph<'_>, target: &Target) -> Result<(HipProgram, Vec<KernelSource>), Refusal> {
    lower::lower(graph, target).map(|Lowered { program, sources }| (program, sources))
}

/// The payload's body.
fn archive(program: &HipProgram) -> Result<Vec<u8>, String> {
    rkyv::to_bytes::<rkyv::rancor::Error>(program).map(|bytes| bytes.to_vec()).map_err(|e| e.to_string())
}

/// Sixteen digits for a list of texts.
fn short_hash<'t>(texts: impl IntoIterator<Item = &'t [u8]>) -> String {
    let mut hasher = blake3::Hasher::new();
    for text in texts {
        hasher.update(text).update(b"\n");
    }
    hasher.finalize().to_hex().as_str()[..16].to_owned()
}

impl Compiler for HipCompiler {
    fn identity(&self) -> ProviderIdentity {
        ProviderIdentity { name: "hip".to_owned(), api_version: ApiVersion::NEWEST_KNOWN }
    }

    fn tools(&self) -> Vec<ToolUse> {
        let used = self.compilers.iter().filter_map(|candidate| candidate.found.get()?.as_ref().ok());
        used.map(|c| ToolUse { name: c.identity(), runs: c.runs(), reused: c.hits() }).filter(|tool| tool.runs > 0).collect()
    }

    fn offers(&self, graph: &VerifiedGraph<'_>, site: &Site) -> Result<Vec<Offer>, Refusal> {
        let compiler = self.compiler_for(site.target())?;
        let Lowered { program, sources } = lower::lower(graph, site.target())?;
        // A kernel's name ends in a hash of its text. Launches depend on the cost model, which no text shows.
        let texts = short_hash(sources.iter().map(|source| source.name.as_bytes()));
        let body = archive(&program).map_err(Refusal::Declined)?;
        let launches = short_hash([body.as_slice()]);
        let revision = format!("{HIP_ENGINE_REVISION}; {}; kernel texts {texts}, launches {launches}", compiler.revision());
        Ok(vec![Offer::new(HIP_ENGINE, revision)])
    }

    fn compile(&self, graph: &VerifiedGraph<'_>, offer: &Offer, site: &Site) -> Result<Compiled, CompileError> {
        let fail = |reason: String| CompileError::Provider { provider: "hip".to_owned(), engine: offer.engine.clone(), reason };
        let target = site.target();
        let compiler = self.compiler_for(target).map_err(|refusal| fail(refusal.to_string()))?;
        let Lowered { program, sources } = lower::lower(graph, target).map_err(|refusal| fail(refusal.to_string()))?;
        let code_objects: Result<Vec<Vec<u8>>, _> = sources.iter().map(|source| compiler.compile(source, target)).collect();
        let code_objects = code_objects.map_err(|error| fail(error.to_string()))?;
        let body = archive(&program).map_err(fail)?;
        Ok(Compiled { kind: HIP_PAYLOAD_KIND, version: HIP_PAYLOAD_VERSION, body, workspace_size: program.workspace_size, code_objects })
    }
}
