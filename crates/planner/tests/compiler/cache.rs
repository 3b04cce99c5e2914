//! Each kernel is compiled once, whoever asks.

use crate::common::{good, target};
use hipplan_planner::hip::compiler::{CachedCompiler, KernelCompileError, KernelCompiler, KernelSource};
use hipplan_serialize::Target;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Barrier, Condvar, Mutex};

/// Makes text of what it is given. Compiles wait at a gate; the first `failures` fail, the first `panics` after those panic.
#[derive(Default)]
struct Fake {
    open: Mutex<bool>,
    gate: Condvar,
    entered: AtomicUsize,
    failures: AtomicUsize,
    panics: AtomicUsize,
}

fn take_one(counter: &AtomicUsize) -> bool {
    counter.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)).is_ok()
}

impl Fake {
    fn open(self) -> Self {
        *self.open.lock().expect("a lock") = true;
        self
    }
}

impl KernelCompiler for Fake {
    fn identity(&self) -> String {
        "fake 1.0".into()
    }

    fn revision(&self) -> String {
        "fake 1.0 -O9".into()
    }

    fn supports(&self, target: &Target) -> Result<(), String> {
        if *target == Target::Cpu { Err("no".into()) } else { Ok(()) }
    }

    fn compile(&self, source: &KernelSource, target: &Target) -> Result<Vec<u8>, KernelCompileError> {
        self.entered.fetch_add(1, Ordering::SeqCst);
        let open = self.open.lock().expect("a lock");
        drop(self.gate.wait_while(open, |open| !*open).expect("a lock"));
        if take_one(&self.failures) {
            return Err(KernelCompileError::Target { compiler: self.identity(), target: target.to_string(), reason: "it fails".into() });
        }
        assert!(!take_one(&self.panics), "a compiler that panics");
        Ok(format!("{} for {target}", source.name).into_bytes())
    }
}

fn named(name: &str) -> KernelSource {
    KernelSource { name: name.to_owned(), ..good() }
}

/// Asks from this many threads at once; opens the gate once one compile has begun and the others had time to queue behind it.
fn at_once(cache: &CachedCompiler<Fake>, threads: usize, gpu: &Target) -> Vec<Result<Vec<u8>, KernelCompileError>> {
    let start = Barrier::new(threads);
    std::thread::scope(|scope| {
        let ask = || {
            start.wait();
            cache.compile(&named("one"), gpu)
        };
        let all: Vec<_> = (0..threads).map(|_| scope.spawn(ask)).collect();
        while cache.inner().entered.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        std::thread::sleep(std::time::Duration::from_millis(200));
        *cache.inner().open.lock().expect("a lock") = true;
        cache.inner().gate.notify_all();
        all.into_iter().filter_map(|one| one.join().ok()).collect()
    })
}

#[test]
fn once_for_each_kernel_and_target() {
    let cache = CachedCompiler::new(Fake::default().open());
    for _ in 0..3 {
        for (name, gpu) in [("one", "gfx90a"), ("one", "gfx90a:xnack-"), ("two", "gfx90a")] {
            let object = cache.compile(&named(name), &target(gpu)).expect("an object");
            assert_eq!(object, format!("{name} for {gpu}").into_bytes());
        }
    }
    assert_eq!((cache.runs(), cache.hits()), (3, 6));
    assert_eq!((cache.identity().as_str(), cache.revision().as_str()), ("fake 1.0", "fake 1.0 -O9"));
    assert!(cache.supports(&Target::Cpu).is_err() && cache.supports(&target("gfx90a")).is_ok());
}

#[test]
fn many_threads_wait_for_one() {
    let cache = CachedCompiler::new(Fake::default());
    let all = at_once(&cache, 8, &target("gfx90a"));
    assert_eq!(all.len(), 8);
    for one in all {
        assert_eq!(one.expect("an object"), b"one for gfx90a");
    }
    assert_eq!((cache.runs(), cache.hits()), (1, 7));
}

#[test]
fn a_failure_is_shared_by_those_who_wait_and_kept_for_nobody() {
    let cache = CachedCompiler::new(Fake { failures: 1.into(), ..Fake::default() });
    let all = at_once(&cache, 8, &target("gfx90a"));
    // Who came too late to wait has compiled again.
    let failed: Vec<_> = all.iter().filter_map(|one| one.as_ref().err()).collect();
    assert!(!failed.is_empty() && failed.iter().all(|e| e.to_string() == "fake 1.0 does not compile for gfx90a: it fails"));
    let runs = cache.runs();
    assert!(cache.compile(&named("one"), &target("gfx90a")).is_ok());
    assert!(cache.runs() <= runs + 1);
    assert_eq!(cache.inner().entered.load(Ordering::SeqCst) as u64, cache.runs());
}

#[test]
fn a_compiler_that_panics_leaves_no_one_waiting() {
    let cache = CachedCompiler::new(Fake { panics: 1.into(), ..Fake::default() });
    let all = at_once(&cache, 4, &target("gfx90a"));
    assert_eq!(all.len(), 3, "one thread panicked");
    assert!(all.iter().all(|one| one.as_ref().is_ok_and(|object| object == b"one for gfx90a")));
    assert_eq!(cache.runs(), 2);
}
