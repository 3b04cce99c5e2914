//! Which provider is asked, in which order, and what it says when none will: floors, decline, policy, persistence (R16 §4.6, §4.7).

use hipplan_planner::{
    CompileError, Compiled, Compiler, Offer, Persistence, ProviderIdentity, Providers, Refusal, Request, Site, compile_graph,
};
use hipplan_serialize::{
    ApiVersion, DataType, GraphBuf, GraphBuilder, Limits, PointwiseMode, Policy, ScalarType, Target, TensorAttributes, VerifiedGraph, ops,
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
        let offer = |engine: &&str| Offer { persistence: self.persistence.clone(), ..Offer::new(*engine, "r1") };
        Ok(self.engines.iter().map(offer).collect())
    }

    fn compile(&self, _: &VerifiedGraph<'_>, offer: &Offer, _: &Site) -> Result<Compiled, CompileError> {
        let body = format!("{}/{}", self.name, offer.engine).into_bytes();
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
    assert_eq!((old_asked.load(Ordering::SeqCst), new_asked.load(Ordering::SeqCst)), (1, 1));
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
    let error = compile(&graph(false), &Policy::DEFAULT, &providers([fake])).expect_err("refused");
    assert!(error.to_string().contains("cannot persist"), "{error}");
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
