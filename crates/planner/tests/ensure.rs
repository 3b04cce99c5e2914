//! A store that was tampered with answers again, by selection and by key, after one call, and nothing is compiled for it.

use hipplan_planner::{CompileError, Ensured, Providers, Request, Site, ensure_plan};
use hipplan_serialize::{
    Canonical, DataType, GraphBuilder, PlanKey, PlanRef, PointwiseMode, Policy, SelectionKey, Target, TensorAttributes, ops,
};
use hipplan_store::testing::{Op, Verdict, with_hook};
use hipplan_store::{Lookup, Mode, Persisted, Store};
use std::fs;
use std::path::PathBuf;
use tempfile::TempDir;

/// A store with the plan of a graph in it, in a folder that dies with it.
struct Filled {
    folder: PathBuf,
    store: Store,
    graph: Canonical,
    plan: PlanRef,
    /// Last, so that the store goes before its folder.
    _scratch: TempDir,
}

fn graph(length: i64) -> Canonical {
    let mut builder = GraphBuilder::new();
    let [x, y, z] = [(); 3].map(|()| builder.tensor(TensorAttributes::packed(DataType::Float, &[length])));
    builder.node("add", DataType::Float, ops::Pointwise::binary(PointwiseMode::Add, x, y, z));
    builder.build().expect("a graph").view().canonical().expect("a key")
}

fn ensure(store: &Store, graph: &Canonical, providers: &Providers) -> Result<Ensured, CompileError> {
    ensure_plan(store, graph, &Request { site: &Site::of(&Target::Cpu), policy: &Policy::DEFAULT }, providers)
}

fn filled(name: &str) -> Filled {
    let scratch = tempfile::Builder::new().prefix(&format!("ensure-{name}-")).tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let folder = scratch.path().join("store");
    let store = Store::open(&folder, Mode::ReadWrite).expect("a store");
    let graph = graph(4);
    let Ok(Ensured::Compiled(key)) = ensure(&store, &graph, &Providers::default()) else { panic!("not compiled") };
    let plan = store.find_plan(&key).hit().expect("found");
    Filled { folder, store, graph, plan, _scratch: scratch }
}

impl Filled {
    fn selection(&self) -> SelectionKey {
        SelectionKey::new(&self.graph.key, &Target::Cpu.to_string(), &Policy::DEFAULT)
    }

    fn record(&self, key: &PlanKey) -> PathBuf {
        let key = key.to_string();
        self.folder.join(format!("index/plan/{}/{}.rec", &key[..2], &key[2..]))
    }

    /// The plan is there without a provider that could compile it.
    fn present(&self, what: &str) {
        match ensure(&self.store, &self.graph, &Providers::none()) {
            Ok(Ensured::Present(key)) if key == self.plan.key => {}
            other => panic!("{what}: {other:?}"),
        }
        assert_eq!(self.store.find_plan(&self.plan.key).hit(), Some(self.plan), "{what}");
        assert_eq!(self.store.find_selection(&self.selection()).hit().expect("found").plans, [self.plan], "{what}");
        let report = self.store.verify();
        assert!(report.is_clean() && report.leftovers.is_empty(), "{what}: {report:?}");
    }
}

#[test]
fn a_plan_record_is_put_right() {
    let it = filled("record");
    let record = it.record(&it.plan.key);
    let good = fs::read(&record).expect("a record");
    for what in ["missing", "garbage", "empty", "pipe", "link", "no folder"] {
        fs::remove_file(&record).expect("removed");
        match what {
            "missing" => {}
            "garbage" => fs::write(&record, "garbage").expect("written"),
            "empty" => fs::write(&record, "").expect("written"),
            "pipe" => assert!(std::process::Command::new("mkfifo").arg(&record).status().expect("mkfifo").success()),
            "link" => std::os::unix::fs::symlink("/dev/zero", &record).expect("linked"),
            _ => fs::remove_dir_all(it.folder.join("index/plan")).expect("removed"),
        }
        assert!(!it.store.verify().is_clean(), "{what}");
        it.present(what);
        assert_eq!(fs::read(&record).expect("a record"), good, "{what}");
    }
}

/// As for another user, or on a file system that is mounted to be read: use cannot be noted, and nothing be put right.
#[test]
fn what_is_there_is_an_answer_where_nothing_may_be_written() {
    for errno in [libc::EACCES, libc::EROFS] {
        let it = filled("read-only");
        let before = it.store.stat().expect("counted");
        let writes = ["create", "write", "rename", "rename-new", "unlink", "make-folder", "lock", "touch"];
        let refuse = move |op: Op<'_>| if writes.contains(&op.name()) { Verdict::Fail(errno) } else { Verdict::Go };
        for store in [Store::open(&it.folder, Mode::ReadWrite).expect("a store"), Store::open_or_degrade(&it.folder)] {
            match with_hook(refuse, || ensure(&store, &it.graph, &Providers::default())) {
                Ok(Ensured::Present(key)) if key == it.plan.key => {}
                other => panic!("{errno}: {other:?}"),
            }
        }
        assert_eq!(it.store.stat().expect("counted"), before);
    }
}

#[test]
fn a_folder_in_place_of_a_record_is_named_and_left_alone() {
    let it = filled("folder");
    let record = it.record(&it.plan.key);
    fs::remove_file(&record).expect("removed");
    fs::create_dir(&record).expect("a folder");
    let error = ensure(&it.store, &it.graph, &Providers::none()).expect_err("refused").to_string();
    assert_eq!(error, format!("{}: found a folder, expected a regular file", record.display()));
    // A store that degrades hands out the plan and says why.
    match ensure(&Store::open_or_degrade(&it.folder), &it.graph, &Providers::none()) {
        Ok(Ensured::NotStored { plan, reason }) => {
            assert_eq!((plan.plan_ref, plan.selection), (it.plan, it.selection()));
            assert!(reason.to_string().contains("found a folder"), "{reason}");
        }
        other => panic!("{other:?}"),
    }
    fs::remove_dir(&record).expect("still there and empty");
    it.present("removed");
}

#[test]
fn rows_of_a_selection_that_lead_nowhere_go() {
    let it = filled("rows");
    let other = graph(5);
    let Ok(Ensured::Compiled(other)) = ensure(&it.store, &other, &Providers::default()) else { panic!("not compiled") };
    let other = it.store.find_plan(&other).hit().expect("found");
    for rows in [[other, it.plan], [it.plan, other]] {
        assert!(matches!(it.store.put_selection(&it.selection(), &rows), Ok(Persisted::Replaced)));
        let root = other.root.to_string();
        let file = it.folder.join(format!("plans/{}/{}.plan", &root[..2], &root[2..]));
        let bytes = fs::read(&file).expect("a plan");
        fs::remove_file(&file).expect("removed");
        match ensure(&it.store, &it.graph, &Providers::none()) {
            Ok(Ensured::Present(key)) if key == it.plan.key => {}
            other => panic!("{other:?}"),
        }
        assert_eq!(it.store.find_selection(&it.selection()).hit().expect("found").plans, [it.plan]);
        let _ = it.store.put_plan(&bytes).expect("put");
    }
    it.present("both put right");
}

#[test]
fn a_damaged_plan_or_selection_is_compiled_again() {
    let it = filled("damaged");
    let (plan, selection) = (it.plan.root.to_string(), it.selection().to_string());
    // Of records there is another: the set of all plans of the graph.
    let files = [format!("plans/{}/{}.plan", &plan[..2], &plan[2..]), format!("index/select/{}/{}.rec", &selection[..2], &selection[2..])];
    for file in files {
        let path = it.folder.join(&file);
        assert!(path.exists(), "{file}");
        fs::write(&path, "garbage").expect("written");
        assert!(matches!(ensure(&it.store, &it.graph, &Providers::default()), Ok(Ensured::Compiled(_))), "{file}");
        it.present(&file);
    }
    assert!(matches!(it.store.get_plan(&it.plan), Lookup::Hit(_)));
}

/// A plan that only another hipplan can load is no answer, and stays for that one.
#[test]
fn a_plan_that_no_loader_accepts_is_compiled_again_and_kept_behind() {
    use hipplan_exec::{CodeObjects, Device, ExecError, Executable, Loader, Restore, find_by_graph_key};
    use hipplan_serialize::plan::{PayloadView, PlanView};

    /// Accepts what the cpu provider has not written yet, and would refuse to load it.
    struct Newer;

    impl Loader for Newer {
        fn kind(&self) -> &'static str {
            "cpu"
        }

        fn versions(&self) -> std::ops::RangeInclusive<u32> {
            2..=9
        }

        fn load(&self, _: &PlanView<'_>, _: &PayloadView<'_>, _: &Device, _: &dyn CodeObjects) -> Result<Box<dyn Executable>, ExecError> {
            Err(ExecError::OutOfMemory { what: "nothing", bytes: 0 })
        }
    }

    let folder = tempfile::tempdir().expect("a folder");
    let store = hipplan_store::Store::open(folder.path().join("store"), hipplan_store::Mode::ReadWrite).expect("a store");
    let mut builder = hipplan_serialize::GraphBuilder::new();
    let x = builder.tensor(hipplan_serialize::TensorAttributes::packed(hipplan_serialize::DataType::Float, &[4]));
    let y = builder.tensor(hipplan_serialize::TensorAttributes::packed(hipplan_serialize::DataType::Float, &[4]));
    let op = hipplan_serialize::ops::Pointwise::unary(hipplan_serialize::PointwiseMode::Neg, x, y);
    builder.node("", hipplan_serialize::DataType::Float, op);
    let canonical = builder.build().expect("a graph").view().canonical().expect("a key");
    let (site, policy) = (hipplan_planner::Site::of(&hipplan_serialize::Target::Cpu), hipplan_serialize::Policy::DEFAULT);
    let request = hipplan_planner::Request { site: &site, policy: &policy };

    let today = hipplan_planner::Providers::default();
    let mut tomorrow = hipplan_planner::Providers::default();
    *tomorrow.loaders_mut() = hipplan_exec::Loaders::none();
    tomorrow.loaders_mut().add(Box::new(Newer));
    let ensure = |providers| hipplan_planner::ensure_plan(&store, &canonical, &request, providers).expect("ensured");
    assert!(matches!(ensure(&today), hipplan_planner::Ensured::Compiled(_)));
    assert!(matches!(ensure(&today), hipplan_planner::Ensured::Present(_)));
    // The other hipplan does not take today's plan for an answer; a lookup says why.
    assert!(matches!(ensure(&tomorrow), hipplan_planner::Ensured::Compiled(_)));
    let Restore::Missed(misses) = find_by_graph_key(&store, &canonical.key, &Device::Cpu, tomorrow.loaders(), &policy) else {
        panic!("found")
    };
    assert!(misses[0].1.to_string().contains("too old"), "{}", misses[0].1);
    // Today's still finds its own.
    assert!(matches!(find_by_graph_key(&store, &canonical.key, &Device::Cpu, today.loaders(), &policy), Restore::Found(_)));
}
