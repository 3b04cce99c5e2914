//! Version floors and who is left (R16 §4.7).

use crate::graphs::{ALPHA, State, scale_in, three_scalars};
use crate::support::{Given, Via, bind, build, compile, factor, float, load, only};
use hipplan::{ApiVersion, CompileError, GraphBuf, Providers, Refusal};
use hipplan_engine_testing::{Counters, Entry};

/// Plugins below the floor of runtime scalars: without a version, and with every one that there was.
const OLD: [(&str, &[&str]); 3] = [
    ("1.0.0", &["hipdnnPluginGetApiVersion=omitted", "KNOWS_NO_RUNTIME=1", "FETCHES_LINES=1"]),
    ("1.0.0", &["API_VERSION=\"1.0.0\"", "KNOWS_NO_RUNTIME=1", "FETCHES_LINES=1"]),
    ("1.1.0", &["API_VERSION=\"1.1.0\"", "KNOWS_NO_RUNTIME=1", "FETCHES_LINES=1"]),
];

#[test]
fn r16_floor_of_runtime_graphs_is_1_2_0_and_old_plugins_are_not_asked() {
    for (i, (reported, switches)) in OLD.iter().enumerate() {
        let old = build(&format!("floor-{i}"), switches);
        let providers = only(&[&old]);
        for state in [State::Supplied, State::Defaulted] {
            let graph = scale_in(state, 1.0);
            assert_eq!(graph.view().api_floor(), ApiVersion::RUNTIME_PASS_BY_VALUE);
            let error = compile(&graph, &providers).expect_err("below the floor");
            let CompileError::NoApplicableEngines { refusals, .. } = &error else { panic!("{error}") };
            let [refusal] = &refusals[..] else { panic!("{error}") };
            let reported = reported.parse().expect("a version");
            assert_eq!(refusal.reason, Refusal::ApiVersion { floor: ApiVersion::RUNTIME_PASS_BY_VALUE, reported });
            let text = error.to_string();
            assert!(
                text.contains("no applicable engines") && text.contains("hipplan test plugin: the graph needs engine API 1.2.0"),
                "{text}"
            );
        }
        let counters = Counters::read(&old).expect("counters");
        assert_eq!(counters.calls(Entry::GetApplicableEngineIds), 0, "it never saw a graph");
    }
}

#[test]
fn r16_floor_leaves_the_plugins_that_qualify() {
    let (old, new) = (build("floor-old", OLD[2].1), build("floor-new", &["PLUGIN_NAME=\"newer\"", "ENGINE_NAMES={\"NEWER\"}"]));
    let providers = only(&[&old, &new]);
    let graph = scale_in(State::Supplied, 1.0);
    let plan = compile(&graph, &providers).unwrap_or_else(|e| panic!("{e}"));
    let mut bound = bind(&plan, &graph, &providers).unwrap_or_else(|e| panic!("{e}"));
    let alpha = float(3.0);
    assert_eq!(factor(&mut bound, &[Given::Raw(ALPHA, &alpha)]).ok(), Some(3.0));
    assert_eq!(Counters::read(&old).expect("counters").calls(Entry::GetApplicableEngineIds), 0);
    // Where all scalars are constants, the floor is the baseline and the first plugin has the graph.
    let constant = scale_in(State::Constant, 0.5);
    assert_eq!(constant.view().api_floor(), ApiVersion::BASELINE);
    let plan = compile(&constant, &providers).unwrap_or_else(|e| panic!("{e}"));
    let mut bound = bind(&plan, &constant, &providers).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(factor(&mut bound, &[]).ok(), Some(0.5));
    assert_eq!(Counters::read(&old).expect("counters").calls(Entry::Execute), 1);
}

#[test]
fn r16_floor_reports_versions_that_are_none() {
    for text in ["\"\"", "\"1.2\"", "\"01.2.0\"", "\"1.2.0-beta\"", "\"1.99999.0\"", "\"2.0.0\"", "\"1.2.0 \"", "NULL"] {
        let odd = build("floor-odd", &[&format!("API_VERSION={text}")]);
        let plugins = load(&[&odd]);
        assert_eq!((plugins.iter().count(), plugins.failures().len()), (0, 1), "{text}");
        let failure = &plugins.failures()[0];
        assert!(failure.reason.to_string().to_lowercase().contains("version"), "{text}: {}", failure.reason);
        // It is said why there is no engine, also for a graph that any plugin serves.
        let mut providers = Providers::none();
        providers.add_plugins(&plugins);
        let error = compile(&scale_in(State::Constant, 1.0), &providers).expect_err("nobody is left");
        assert!(matches!(error, CompileError::NoApplicableEngines { .. }), "{error}");
        assert!(error.to_string().contains("floor-odd.so") || error.to_string().contains("hipplan test plugin"), "{text}: {error}");
    }
}

fn served(graph: &GraphBuf, switches: &[&str]) -> Result<f32, CompileError> {
    let providers = only(&[&build("unsupporting", switches)]);
    let plan = compile(graph, &providers)?;
    let mut bound = bind(&plan, graph, &providers).unwrap_or_else(|e| panic!("{e}"));
    Ok(factor(&mut bound, &[]).unwrap_or_else(|e| panic!("{e}")))
}

#[test]
fn r16_unsupporting_plugin_is_declined_for_runtime_and_serves_constants() {
    for (_, switches) in OLD {
        // The same build, both graphs: its reading of a host scalar as a device buffer would fault.
        for state in [State::Supplied, State::Defaulted] {
            assert!(matches!(served(&scale_in(state, 0.5), switches), Err(CompileError::NoApplicableEngines { .. })));
        }
        assert_eq!(served(&scale_in(State::Constant, 0.5), switches).expect("served"), 0.5);
    }
}

#[test]
fn r16_unsupporting_engine_that_folds_declines_runtime_and_serves_constants() {
    // Of version 1.2.0, and its engine folds scalars: it must decline (R16 §4.6).
    for state in [State::Supplied, State::Defaulted] {
        let error = served(&scale_in(state, 0.5), &["FOLDS=1"]).expect_err("declined");
        let CompileError::NoApplicableEngines { refusals, .. } = &error else { panic!("{error}") };
        assert!(matches!(&refusals[..], [refusal] if matches!(refusal.reason, Refusal::Declined(_))), "{error}");
    }
    assert_eq!(served(&scale_in(State::Constant, 0.5), &["FOLDS=1"]).expect("served"), 0.5);
}

#[test]
fn r16_parity_graph_without_the_feature_is_the_same_to_everyone() {
    let graph = three_scalars(State::Constant, State::Constant, State::Constant);
    let view = graph.view();
    assert_eq!((view.api_floor(), view.min_reader_version()), (ApiVersion::BASELINE, 0));
    assert!(view.tensors().iter().all(|t| !t.is_runtime), "the flag reads as false where it was never written");
    let (old, new) = (only(&[&build("parity", OLD[0].1)]), Via::Plugin.providers());
    let mut results = Vec::new();
    for providers in [&old, &new, &Via::Cpu.providers()] {
        let plan = compile(&graph, providers).unwrap_or_else(|e| panic!("{e}"));
        let mut bound = bind(&plan, &graph, providers).unwrap_or_else(|e| panic!("{e}"));
        let (report, bytes) = crate::support::checked(&mut bound, &graph, &crate::support::integers(&graph));
        assert!(report.passed(), "{report}");
        results.push(bytes);
    }
    assert!(results.windows(2).all(|pair| pair[0] == pair[1]), "{results:?}");
}
