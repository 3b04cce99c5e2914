//! Handles and contexts: how many there are, and that all are given back.

use crate::graphs::{ALPHA, State, X, Y, scale_in};
use crate::support::{build, canonical, context, load, prepared};
use hipplan::{Device, Stream, VariantPack};
use hipplan_engine_testing::{Counters, Entry};
use std::thread;

#[test]
fn a_thread_has_one_handle_of_a_plugin_and_leaves_it_to_the_next() {
    let path = build("handles-thread", &[]);
    let plugin = load(&path);
    let graph = scale_in(State::Supplied, 0.0);
    let calls = || {
        let graph = canonical(&graph);
        for _ in 0..3 {
            plugin.applicable_engines(&Device::Cpu, &graph.view()).expect("engines");
        }
        drop(context(&plugin, &scale_in(State::Supplied, 0.0)).expect("a context"));
    };
    thread::scope(|scope| scope.spawn(calls).join().expect("no panic"));
    let after_one = Counters::read(&path).expect("counters");
    assert_eq!((after_one.calls(Entry::Create), after_one.live_handles, after_one.live_contexts), (1, 1, 0));
    assert_eq!(after_one.last_stream, 0);
    thread::scope(|scope| scope.spawn(calls).join().expect("no panic"));
    let after_two = Counters::read(&path).expect("counters");
    // No plugin is called when a thread ends, and contexts may point into handles.
    assert_eq!((after_two.calls(Entry::Create), after_two.calls(Entry::Destroy), after_two.live_handles), (1, 0, 1));
    // Nor does the same file, loaded again, need another.
    let plugin = load(&path);
    thread::scope(|scope| {
        scope
            .spawn(|| plugin.applicable_engines(&Device::Cpu, &canonical(&graph).view()).map(|_| ()))
            .join()
            .expect("no panic")
            .expect("engines");
    });
    assert_eq!(Counters::read(&path).expect("counters").calls(Entry::Create), 1);
}

#[test]
fn a_plan_is_bound_on_one_thread_executed_on_another_and_dropped_on_a_third() {
    let path = build("handles-moves", &[]);
    let plugin = load(&path);
    let graph = scale_in(State::Supplied, 0.0);
    thread::scope(|scope| {
        let mut plan = scope.spawn(|| prepared(&plugin, &graph)).join().expect("bound");
        let plan = scope
            .spawn(move || {
                let mut y = [0.0_f32; 4];
                let mut pack = VariantPack::new();
                pack.input(X, &[1.0_f32, 2.0, 3.0, 4.0]).scalar(ALPHA, 2.0_f32).output(Y, &mut y);
                plan.execute(&pack, &mut [], Stream::Default).expect("executed");
                assert_eq!(y, [2.0, 4.0, 6.0, 8.0]);
                plan
            })
            .join()
            .expect("executed");
        scope.spawn(move || drop(plan)).join().expect("dropped");
    });
    let counters = Counters::read(&path).expect("counters");
    // One thread after another.
    assert_eq!((counters.calls(Entry::Create), counters.live_handles, counters.live_contexts), (1, 1, 0));
}

#[test]
fn threads_execute_at_once() {
    let path = build("handles-at-once", &[]);
    let plugin = load(&path);
    let graph = scale_in(State::Supplied, 0.0);
    thread::scope(|scope| {
        let threads = [1, 2, 3, 4_u8].map(|number| {
            let (plugin, graph) = (&plugin, &graph);
            scope.spawn(move || {
                let mut plan = prepared(plugin, graph);
                let alpha = f32::from(number);
                for _ in 0..200 {
                    let mut y = [0.0_f32; 4];
                    let mut pack = VariantPack::new();
                    pack.input(X, &[1.0_f32, 2.0, 3.0, 4.0]).scalar(ALPHA, alpha).output(Y, &mut y);
                    plan.execute(&pack, &mut [], Stream::Default).expect("executed");
                    assert_eq!(y, [alpha, 2.0 * alpha, 3.0 * alpha, 4.0 * alpha]);
                }
            })
        });
        // A scope's own end does not wait for what threads give back.
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    });
    let counters = Counters::read(&path).expect("counters");
    let made = counters.calls(Entry::Create);
    // No more than were in use at once.
    assert!((1..=4).contains(&made), "{made}");
    assert_eq!((counters.calls(Entry::Execute), counters.live_contexts, counters.live_buffers), (800, 0, 0));
}

thread_local! {
    /// Made before any handle of the thread, so that it goes after them.
    static LAST: std::cell::RefCell<Option<hipplan::BoundPlan>> = const { std::cell::RefCell::new(None) };
}

#[test]
fn a_plan_that_outlives_its_threads_handles_does_no_harm() {
    let path = build("handles-late", &[]);
    let plugin = load(&path);
    let graph = scale_in(State::Supplied, 0.0);
    let bound = prepared(&plugin, &graph);
    let ends = move || {
        LAST.with(|last| *last.borrow_mut() = Some(bound));
        plugin.applicable_engines(&Device::Cpu, &canonical(&graph).view()).expect("engines");
    };
    thread::spawn(ends).join().expect("no panic");
    // The thread's handles were gone when the plan was dropped, and its context was given back with one of them all the same.
    let counters = Counters::read(&path).expect("counters");
    assert_eq!((counters.calls(Entry::Create), counters.live_handles, counters.live_contexts), (2, 2, 0));
}
