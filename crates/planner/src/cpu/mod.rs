//! The compiling half of the `cpu` provider: the embedded default.

mod lower;

use crate::compile::CompileError;
use crate::fuse;
use crate::provider::{Compiled, Compiler, Offer, ProviderIdentity, Refusal, Site};
use hipplan_exec::cpu::{CpuError, CpuProgram, Executable};
use hipplan_exec::{CPU_PAYLOAD_KIND, CPU_PAYLOAD_VERSION};
use hipplan_serialize::{ApiVersion, Target, VerifiedGraph};

/// Name of the provider's engine.
pub const CPU_ENGINE: &str = "HIPPLAN_CPU";
/// Raised whenever the same graph might be lowered into another program.
const CPU_ENGINE_REVISION: &str = "1";

/// The compiling half of the `cpu` provider. It lowers a graph to a program of the CPU device. Runtime scalars are read at execute and
/// never folded, so none is declined for being runtime (R16 §4.6).
#[derive(Clone, Copy, Debug, Default)]
pub struct CpuCompiler;

impl Compiler for CpuCompiler {
    fn identity(&self) -> ProviderIdentity {
        ProviderIdentity { name: "cpu".to_owned(), api_version: ApiVersion::NEWEST_KNOWN }
    }

    fn offers(&self, graph: &VerifiedGraph<'_>, site: &Site) -> Result<Vec<Offer>, Refusal> {
        if *site.target() != Target::Cpu {
            return Err(Refusal::Target(format!("compiles for target cpu only, not for {}", site.target())));
        }
        lower(graph)?;
        Ok(vec![Offer::new(CPU_ENGINE, CPU_ENGINE_REVISION)])
    }

    fn compile(&self, graph: &VerifiedGraph<'_>, offer: &Offer, _: &Site) -> Result<Compiled, CompileError> {
        let fail = |reason: String| CompileError::Provider { provider: "cpu".to_owned(), engine: offer.engine.clone(), reason };
        let program = lower(graph).map_err(|refusal| fail(refusal.to_string()))?;
        let body = rkyv::to_bytes::<rkyv::rancor::Error>(&program).map_err(|e| fail(e.to_string()))?;
        Ok(Compiled {
            kind: CPU_PAYLOAD_KIND,
            version: CPU_PAYLOAD_VERSION,
            body: body.to_vec(),
            workspace_size: program.workspace_size,
            code_objects: Vec::new(),
        })
    }
}

/// The program of a graph. The loader's own check has the last word on what is supported; what it refuses with fused chains is
/// tried without. The check is for no machine in particular, so that the program does not depend on the one that compiles (P6).
fn lower(graph: &VerifiedGraph<'_>) -> Result<CpuProgram, Refusal> {
    let declined = |error: CpuError| Refusal::Declined(error.to_string());
    let fused = lower::lower(graph, &fuse::fuse(graph))?;
    match Executable::check(&fused) {
        Ok(()) => return Ok(fused),
        // How much memory there is at the moment says nothing about the program.
        Err(error @ CpuError::OutOfMemory { .. }) => return Err(declined(error)),
        Err(_) => {}
    }
    let plain = lower::lower(graph, &fuse::one_each(graph))?;
    Executable::check(&plain).map(|()| plain).map_err(declined)
}
