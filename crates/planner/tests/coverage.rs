//! Coverage of a run: different graphs are looked up once, and calls are what counts.

mod common;

use common::{Folder, canonical, product};
use hipplan_planner::{Answer, BatchItem, Coverage, Ensured, LackReason, LoggedItem, Providers, Request, Site, cover, ensure_plan};
use hipplan_serialize::{Policy, Target};

fn item(name: &str, length: i64, calls: u64) -> LoggedItem {
    LoggedItem { item: BatchItem::of_graph(name.to_owned(), &product(length).view()), calls }
}

fn of(folder: &Folder, items: &[LoggedItem], target: &str) -> (Coverage, Providers) {
    let providers = Providers::default();
    let target: Target = target.parse().expect("a target");
    let coverage = cover(&folder.store(), items, None, &target.candidates(), &Policy::DEFAULT, &providers);
    (coverage, providers)
}

#[test]
fn calls_are_added_up_and_weigh() {
    let folder = Folder::new();
    let store = folder.store();
    for length in [4, 5] {
        let request = Request { site: &Site::of(&Target::Cpu), policy: &Policy::DEFAULT };
        assert!(matches!(ensure_plan(&store, &canonical(&product(length)), &request, &Providers::default()), Ok(Ensured::Compiled(_))));
    }
    let mut items = vec![item("a", 4, 90), item("b", 6, 10), item("c", 4, 60), item("d", 5, 0), item("e", 6, 40)];
    let (coverage, providers) = of(&folder, &items, "cpu");
    let rows: Vec<_> = coverage.rows.iter().map(|row| (row.input, &*row.source, row.calls, row.answer.word())).collect();
    assert_eq!(rows, [(0, "a", 150, "covered"), (1, "b", 50, "missing"), (3, "d", 0, "covered")]);
    assert_eq!((coverage.count("covered"), coverage.count("missing")), ((2, 150), (1, 50)));
    assert!((coverage.share_of_calls() - 0.75).abs() < 1e-12 && !coverage.is_complete());
    assert_eq!(coverage.lacking(), Some(LackReason::Missing));
    let counts = providers.counters().get();
    assert_eq!((counts.hits, counts.all_missed(), counts.compiled), (2, 1, 0), "each different graph is looked up once");

    let (coverage, _) = of(&folder, &items, "gfx942");
    assert_eq!(coverage.count("wrong-target"), (2, 150));
    assert!(coverage.share_of_calls() == 0.0 && coverage.lacking() == Some(LackReason::WrongTarget));

    items.retain(|logged| logged.item.source != "b" && logged.item.source != "e");
    let (coverage, _) = of(&folder, &items, "cpu");
    assert!(coverage.is_complete() && coverage.share_of_calls() == 1.0 && coverage.lacking().is_none());
    items.push(LoggedItem { item: BatchItem::invalid("x".into(), "no graph".into()), calls: 50 });
    let (coverage, _) = of(&folder, &items, "cpu");
    assert!(!coverage.is_complete() && coverage.share_of_calls() == 0.75 && coverage.lacking().is_none());
    assert_eq!(coverage.rows.last().map(|row| &row.answer), Some(&Answer::Invalid { reason: "no graph".into() }));
}

#[test]
fn nothing_is_covered_wholly() {
    let (coverage, _) = of(&Folder::new(), &[], "cpu");
    assert!(coverage.is_complete() && coverage.share_of_calls() == 1.0 && coverage.rows.is_empty());
}
