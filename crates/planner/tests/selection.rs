//! Which provider is asked, in which order, and what it says when none will: floors, decline, policy, persistence (R16 §4.6, §4.7).

use hipplan_planner::{
    CompileError, Compiled, Compiler, Offer, Persistence, ProviderIdentity, Providers, Refusal, Request, Site, compile_graph,
    compile_in_process, survey,
};
use hipplan_serialize::hipdnn::engine::{KnobConstraint, KnobInfo, KnobValue};
use hipplan_serialize::{
    ApiVersion, DataType, GraphBuf, GraphBuilder, Knob, Limits, PointwiseMode, Policy, ScalarType, Target, TensorAttributes, VerifiedGraph,
    engine_id, ops,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A provider that takes everything it is shown, and counts how often it is shown something.
struct Fake {
    name: &'static str,
    api: ApiVersion,
    engines: &'static [&'static str],
    persistence: Persistence,
    refuses: Option<&'static str>,
    asked: Arc<AtomicUsize>,
}

impl Fake {
    fn new(name: &'static str, api: ApiVersion) -> (Self, Arc<AtomicUsize>) {
        let asked = Arc::new(AtomicUsize::new(0));
        let fake = Self { name, api, engines: &["FAKE"], persistence: Persistence::Payload, refuses: None, asked: asked.clone() };
        (fake, asked)
    }
}

impl Compiler for Fake {
    fn identity(&self) -> ProviderIdentity {
        ProviderIdentity { name: self.name.to_owned(), api_version: self.api }
    }

    fn offers(&self, graph: &VerifiedGraph<'_>, _: &Site) -> Result<Vec<Offer>, Refusal> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        // Providers see the canonical form only: no names, ordinals for uids.
        assert!(graph.name().is_empty() && graph.tensors().iter().zip(0..).all(|(t, i)| t.name.is_empty() && t.uid.0 == i));
        if let Some(reason) = self.refuses {
            return Err(Refusal::Declined(reason.to_owned()));
        }
        let tile = KnobInfo {
            id: "fake.tile".into(),
            description: String::new(),
            default: KnobValue::Int(16),
            constraint: Some(KnobConstraint::Int { min: 8, max: 64, step: 8, valid: Vec::new() }),
            deprecated: false,
        };
        let offer = |engine: &&str| Offer {
            persistence: self.persistence.clone(),
            // Only engines of this name have the setting.
            knobs: if engine.ends_with("TILED") { vec![tile.clone()] } else { Vec::new() },
            ..Offer::new(*engine, "r1")
        };
        Ok(self.engines.iter().map(offer).collect())
    }

    fn compile(&self, _: &VerifiedGraph<'_>, offer: &Offer, _: &Site) -> Result<Compiled, CompileError> {
        let settings: String = offer.settings.iter().map(|Knob { id, value }| format!(" {id}={value}")).collect();
        let body = format!("{}/{}{settings}", self.name, offer.engine).into_bytes();
        Ok(Compiled { kind: "fake", version: 3, body, workspace_size: 0, code_objects: Vec::new() })
    }
}

fn graph(runtime: bool) -> GraphBuf {
    let mut builder = GraphBuilder::new();
    builder.set_name("named").set_preferred_engine_id(Some(7));
    let x = builder.tensor(TensorAttributes::packed(DataType::Float, &[4]));
    let ty = if runtime { ScalarType::RuntimeParam } else { ScalarType::CompileTimeConst };
    let alpha = builder.scalar(2.0_f32, ty);
    let y = builder.tensor(TensorAttributes::packed(DataType::Float, &[4]));
    builder.node("mul", DataType::Float, ops::Pointwise::binary(PointwiseMode::Mul, x, alpha, y));
    builder.build().expect("a graph")
}

fn providers(fakes: impl IntoIterator<Item = Fake>) -> Providers {
    let mut providers = Providers::none();
    for fake in fakes {
        providers.add(Box::new(fake));
    }
    providers
}

fn compile(graph: &GraphBuf, policy: &Policy, providers: &Providers) -> Result<String, CompileError> {
    let target: Target = "gfx942".parse().expect("a target");
    let plan = compile_graph(&graph.view(), &Request { site: &Site::of(&target), policy }, providers)?;
    let view = hipplan_serialize::plan::PlanView::open(&plan.bytes).expect("a plan");
    assert_eq!(view.meta().target.as_str(), "gfx942");
    let payload = view.payload().expect("a payload").accept("fake", 1, 3).expect("accepted");
    Ok(String::from_utf8(payload.body().to_vec()).expect("text"))
}

#[test]
fn an_old_provider_is_never_shown_a_runtime_scalar() {
    let (old, old_asked) = Fake::new("old", ApiVersion::BASELINE);
    let (new, new_asked) = Fake::new("new", ApiVersion::RUNTIME_PASS_BY_VALUE);
    let both = providers([old, new]);
    assert_eq!(compile(&graph(true), &Policy::DEFAULT, &both).expect("compiled"), "new/FAKE");
    assert_eq!((old_asked.load(Ordering::SeqCst), new_asked.load(Ordering::SeqCst)), (0, 1));
    // The same provider serves the same graph with a constant.
    assert_eq!(compile(&graph(false), &Policy::DEFAULT, &both).expect("compiled"), "old/FAKE");
    // It prefers an engine that nobody has, so everybody is asked for that one whose version suffices.
    assert_eq!((old_asked.load(Ordering::SeqCst), new_asked.load(Ordering::SeqCst)), (1, 2));
}

#[test]
fn when_nobody_will_everybody_says_why() {
    let (old, asked) = Fake::new("old", ApiVersion::OVERRIDE_SHAPES);
    let (mut folding, _) = Fake::new("folding", ApiVersion::NEWEST_KNOWN);
    folding.refuses = Some("folds the scalar of node 0 into its kernel");
    let mut all = providers([old, folding]);
    all.add(Box::new(hipplan_planner::cpu::CpuCompiler));
    let error = compile(&graph(true), &Policy::DEFAULT, &all).expect_err("refused");
    let text = error.to_string();
    for part in [
        "no applicable engines for target gfx942",
        "old: the graph needs engine API 1.2.0, the provider speaks 1.1.0",
        "folding: folds the scalar",
        "cpu: compiles for target cpu only, not for gfx942",
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    assert_eq!(asked.load(Ordering::SeqCst), 0);
    let error = compile(&graph(true), &Policy::DEFAULT, &Providers::none()).expect_err("refused");
    assert!(error.to_string().contains("there are no providers"));
}

#[test]
fn a_policy_names_the_engine() {
    let (mut fake, _) = Fake::new("fake", ApiVersion::NEWEST_KNOWN);
    fake.engines = &["FIRST", "SECOND"];
    let all = providers([fake]);
    assert_eq!(compile(&graph(false), &Policy::DEFAULT, &all).expect("compiled"), "fake/FIRST");
    assert_eq!(compile(&graph(false), &Policy::engine("SECOND"), &all).expect("compiled"), "fake/SECOND");
    assert!(matches!(compile(&graph(false), &Policy::engine("THIRD"), &all), Err(CompileError::NoApplicableEngines { .. })));
}

#[test]
fn what_cannot_be_kept_is_not_stored() {
    let (mut fake, _) = Fake::new("fake", ApiVersion::NEWEST_KNOWN);
    fake.persistence = Persistence::ProcessOnly("it is a fake".into());
    let (other, _) = Fake::new("other", ApiVersion::NEWEST_KNOWN);
    let mut all = providers([fake]);
    let error = compile(&graph(false), &Policy::DEFAULT, &all).expect_err("refused");
    assert!(error.to_string().contains("provider cannot persist") && error.to_string().contains("it is a fake"), "{error}");
    // Another that can is taken, unless the first is asked for.
    all.add(Box::new(other));
    assert_eq!(compile(&graph(false), &Policy::DEFAULT, &all).expect("compiled"), "other/FAKE");
    let only = Policy { provider: Some("fake".into()), ..Policy::DEFAULT };
    let error = compile(&graph(false), &only, &all).expect_err("refused");
    assert!(
        matches!(error, CompileError::CannotPersist { .. }) && error.to_string().contains("other: provider fake was asked for"),
        "{error}"
    );
}

#[test]
fn a_policy_names_the_provider() {
    let all = providers([Fake::new("first", ApiVersion::NEWEST_KNOWN).0, Fake::new("second", ApiVersion::NEWEST_KNOWN).0]);
    let only = |name: &str| Policy { provider: Some(name.into()), ..Policy::DEFAULT };
    assert_eq!(compile(&graph(false), &only("second"), &all).expect("compiled"), "second/FAKE");
    let error = compile(&graph(false), &only("third"), &all).expect_err("refused").to_string();
    assert!(error.contains("first: provider third was asked for; second: provider third was asked for"), "{error}");
}

#[test]
fn an_engine_may_be_named_by_the_text_of_its_id() {
    let (mut fake, _) = Fake::new("fake", ApiVersion::NEWEST_KNOWN);
    fake.engines = &["FIRST", "SECOND"];
    let by_id = Policy::engine(format!("0x{:016X}", engine_id("SECOND")));
    assert_eq!(compile(&graph(false), &by_id, &providers([fake])).expect("compiled"), "fake/SECOND");
}

#[test]
fn a_preference_comes_before_the_order_and_is_no_condition() {
    let mut second = Fake::new("second", ApiVersion::NEWEST_KNOWN).0;
    second.engines = &["A", "B"];
    let all = providers([Fake::new("first", ApiVersion::NEWEST_KNOWN).0, second]);
    let prefer = |name: &str| Policy { preferred: Some(engine_id(name)), ..Policy::DEFAULT };
    assert_eq!(compile(&graph(false), &prefer("B"), &all).expect("compiled"), "second/B");
    assert_eq!(compile(&graph(false), &prefer("NOBODY"), &all).expect("compiled"), "first/FAKE");
    // What is asked for is a condition.
    let both = Policy { provider: Some("first".into()), ..prefer("B") };
    assert_eq!(compile(&graph(false), &both, &all).expect("compiled"), "first/FAKE");
}

#[test]
fn settings_reach_the_engine_that_knows_them() {
    let (mut fake, _) = Fake::new("fake", ApiVersion::NEWEST_KNOWN);
    fake.engines = &["PLAIN", "TILED"];
    let all = providers([fake]);
    let set = |value: &str| Policy { knobs: vec![Knob { id: "fake.tile".into(), value: value.into() }], ..Policy::DEFAULT };
    assert_eq!(compile(&graph(false), &set("32"), &all).expect("compiled"), "fake/TILED fake.tile=32");
    // One value, one plan, however it is spelt.
    assert_eq!(compile(&graph(false), &set("+032"), &all).expect("compiled"), "fake/TILED fake.tile=32");
    let refusal = |policy: &Policy| compile(&graph(false), policy, &all).expect_err("refused").to_string();
    for value in ["12", "72", "0", "x", ""] {
        let only = Policy { engine: Some("TILED".into()), ..set(value) };
        assert!(refusal(&only).contains("fake.tile"), "{}", refusal(&only));
    }
    let unknown = Policy { knobs: vec![Knob { id: "fake.size".into(), value: "1".into() }], ..Policy::engine("TILED") };
    assert!(refusal(&unknown).contains("does not know the knob fake.size; it has fake.tile"), "{}", refusal(&unknown));
    let mut twice = Policy { engine: Some("TILED".into()), ..set("8") };
    twice.knobs.push(Knob { id: "fake.tile".into(), value: "16".into() });
    assert!(refusal(&twice).contains("set twice"), "{}", refusal(&twice));
}

#[test]
fn settings_and_engine_are_part_of_the_plan_key() {
    let (mut fake, _) = Fake::new("fake", ApiVersion::NEWEST_KNOWN);
    fake.engines = &["A_TILED", "B_TILED"];
    let all = providers([fake]);
    let target: Target = "gfx942".parse().expect("a target");
    let key = |engine: &str, tile: Option<&str>| {
        let knobs = tile.map(|value| Knob { id: "fake.tile".into(), value: value.into() }).into_iter().collect();
        let policy = Policy { knobs, ..Policy::engine(engine) };
        compile_graph(&graph(false).view(), &Request { site: &Site::of(&target), policy: &policy }, &all).expect("compiled").plan_ref.key
    };
    let keys = [key("A_TILED", None), key("B_TILED", None), key("A_TILED", Some("8")), key("A_TILED", Some("16"))];
    for (i, one) in keys.iter().enumerate() {
        assert!(keys[i + 1..].iter().all(|other| other != one), "{i}");
    }
    assert_eq!(key("A_TILED", Some("8")), key("A_TILED", Some("08")));
}

#[test]
fn a_survey_asks_everybody_and_shows_nobody_what_is_above_its_version() {
    let (old, asked) = Fake::new("old", ApiVersion::BASELINE);
    let (mut declines, _) = Fake::new("declines", ApiVersion::NEWEST_KNOWN);
    declines.refuses = Some("not today");
    let (mut new, _) = Fake::new("new", ApiVersion::NEWEST_KNOWN);
    new.engines = &["A", "B"];
    let all = providers([old, declines, new]);
    let answers = survey(&graph(true).view(), &Site::of(&Target::Cpu), &all).expect("answers");
    let told: Vec<String> = answers
        .iter()
        .map(|answer| match &answer.offers {
            Ok(offers) => format!("{}: {}", answer.provider.name, offers.iter().map(|o| o.engine.as_str()).collect::<Vec<_>>().join(" ")),
            Err(reason) => format!("{}: {reason}", answer.provider.name),
        })
        .collect();
    assert_eq!(told, ["old: the graph needs engine API 1.2.0, the provider speaks 1.0.0", "declines: not today", "new: A B"]);
    assert_eq!(asked.load(Ordering::SeqCst), 0);
}

#[test]
fn what_is_compiled_for_this_process_needs_a_device_that_is_there() {
    let target: Target = "gfx942".parse().expect("a target");
    let request = Request { site: &Site::of(&target), policy: &Policy::DEFAULT };
    let error = compile_in_process(&graph(false).view(), &request, &Providers::default()).expect_err("refused");
    assert!(matches!(error, CompileError::NotPresent { .. }), "{error}");
    let here = Request { site: &Site::of(&Target::Cpu), policy: &Policy::DEFAULT };
    let made = compile_in_process(&graph(false).view(), &here, &Providers::default()).expect("compiled");
    assert_eq!(made.bound.key(), made.plan.plan_ref.key);
}

#[test]
fn names_and_preferences_of_the_author_do_not_reach_the_plan() {
    let request = Request { site: &Site::of(&Target::Cpu), policy: &Policy::DEFAULT };
    let plan = |graph: &GraphBuf| compile_graph(&graph.view(), &request, &Providers::default()).expect("compiled").bytes;
    let mut other = GraphBuilder::new();
    let y = TensorAttributes::packed(DataType::Float, &[4]).set_name("result").clone();
    let y = other.tensor(y);
    let mut alpha = TensorAttributes::scalar_of(2.0_f32, ScalarType::RuntimeParam);
    let alpha = other.tensor(alpha.set_name("factor").clone());
    let x = other.tensor(TensorAttributes::packed(DataType::Float, &[4]));
    other.node("", DataType::Float, ops::Pointwise::binary(PointwiseMode::Mul, x, alpha, y));
    assert!(plan(&graph(true))[..] == plan(&other.build().expect("a graph"))[..]);
}

/// Limits that a caller has raised hold for what is made of the graph, too.
#[test]
fn a_graph_that_needs_raised_limits_compiles() {
    let dims = vec![1_i64; 12];
    let build = |limits: &Limits| {
        let mut g = GraphBuilder::new();
        let [x, y] = [0, 1].map(|_| g.tensor(TensorAttributes::packed(DataType::Float, &dims)));
        g.node("relu", DataType::Float, ops::Pointwise::unary(PointwiseMode::ReluFwd, x, y));
        g.build_with(limits)
    };
    assert!(build(&Limits::DEFAULT).is_err_and(|e| e.to_string().contains("max_rank")));
    let limits = Limits { max_rank: 12, ..Limits::DEFAULT };
    let graph = build(&limits).expect("within these limits");
    let (fake, asked) = Fake::new("fake", ApiVersion::BASELINE);
    assert_eq!(compile(&graph, &Policy::DEFAULT, &providers([fake])).expect("compiled"), "fake/FAKE");
    assert_eq!(asked.load(Ordering::SeqCst), 1);
}
