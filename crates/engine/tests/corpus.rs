//! Graphs of the corpus through the exported functions: what the engine says it takes, it computes, in a context that was compiled and in one that
//! was restored.

mod common;

use common::{Engine, corpus, two_readers};
use hipplan_engine::ENGINE_ID;
use hipplan_engine_abi::status::NOT_APPLICABLE;
use hipplan_exec::reference::check;
use hipplan_planner::cpu::CpuCompiler;
use hipplan_planner::{Compiler, Site};
use hipplan_serialize::{Target, canon};

#[test]
fn what_is_taken_is_what_the_cpu_provider_takes_and_it_is_right() {
    let engine = Engine::new();
    let (mut taken, mut declined, mut with_workspace) = (0, 0, 0);
    // None of the corpus needs a workspace.
    for (path, graph) in corpus().into_iter().chain([("two readers".into(), two_readers())]) {
        let name = path.display();
        let canonical = graph.view().canonical().expect("a key");
        let owned = canon::decode(&canonical.encoding, &canonical.limits).expect("canonical");
        let offers = CpuCompiler.offers(&owned.view(), &Site::Offline(Target::Cpu));
        let applicable = engine.applicable(graph.buffer()).expect("an answer");
        if let Err(reason) = offers {
            assert!(applicable.is_empty(), "{name}");
            let failed = engine.create(graph.buffer()).err().expect("declined");
            assert_eq!(failed.0, NOT_APPLICABLE, "{name}");
            assert!(failed.1.contains(&reason.to_string()), "{name}: {}", failed.1);
            declined += 1;
            continue;
        }
        assert_eq!(applicable, [ENGINE_ID], "{name}");
        let fresh = engine.create(graph.buffer()).unwrap_or_else(|e| panic!("{name}: {e:?}"));
        let bytes = fresh.serialize();
        let restored = engine.restore(&bytes).unwrap_or_else(|e| panic!("{name}: {e:?}"));
        assert_eq!(restored.serialize(), bytes, "{name}");
        assert_eq!(restored.workspace_size(), fresh.workspace_size());
        with_workspace += usize::from(fresh.workspace_size() > 0);
        for (context, seed) in [(&fresh, 1), (&restored, 2)] {
            let report = check(&graph.view(), seed, &mut |inputs, outputs| context.execute_inputs(inputs, outputs).map_err(|e| e.1));
            let report = report.unwrap_or_else(|e| panic!("{name}: {e}"));
            assert!(report.passed(), "{name}:\n{report}");
        }
        taken += 1;
    }
    eprintln!("{taken} graphs taken, of which {with_workspace} with a workspace; {declined} declined");
    assert!(taken >= 10 && declined >= 10 && with_workspace >= 1);
}
