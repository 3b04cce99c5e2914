//! A plan that is ready to execute on several threads: what `hipplan_plan_t` is.

use crate::failure::Failure;
use crate::lane::{Call, Events, Lane};
use crate::library::Shared;
use hipplan_exec::hip::HipEvent;
use hipplan_exec::{BoundPlan, Device, ExecError};
use hipplan_serialize::PlanKey;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

/// Executions that can be prepared at once. What a lane holds is small, and preparing takes microseconds: more threads seldom meet.
const LANES: usize = 4;
/// How long a forked child waits for a lane that it has from its parent, and the pause between two looks.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
const NAP: Duration = Duration::from_millis(1);

/// Copies of one bound plan, each with arguments of its own.
#[derive(Debug)]
pub(crate) struct Bound {
    shared: Arc<Shared>,
    lanes: Box<[Mutex<Lane>]>,
    /// Those of timed executions that have finished, made when there are none.
    events: Mutex<Vec<Events>>,
    workspace_size: u64,
    key: PlanKey,
    /// That made it.
    process: u32,
}

impl Bound {
    /// `bind` is called for each lane. Code objects are loaded by the first.
    pub(crate) fn new(shared: &Arc<Shared>, tensors: usize, bind: impl Fn() -> Result<BoundPlan, ExecError>) -> Result<Self, ExecError> {
        let first = Lane::new(bind()?, tensors);
        let (workspace_size, key) = (first.plan().workspace_size(), first.plan().key());
        let mut lanes = Vec::with_capacity(LANES);
        lanes.push(Mutex::new(first));
        for _ in 1..LANES {
            lanes.push(Mutex::new(Lane::new(bind()?, tensors)));
        }
        let (shared, lanes, process) = (Arc::clone(shared), lanes.into_boxed_slice(), std::process::id());
        Ok(Self { shared, lanes, events: Mutex::default(), workspace_size, key, process })
    }

    pub(crate) fn workspace_size(&self) -> u64 {
        self.workspace_size
    }

    pub(crate) fn key(&self) -> PlanKey {
        self.key
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// A lane that nobody uses; if all are in use, the first, when it is free again.
    #[inline]
    fn lane(&self) -> Result<MutexGuard<'_, Lane>, Failure> {
        if let Some(lane) = self.free_lane() {
            return Ok(lane);
        }
        if self.process != std::process::id() {
            return self.lane_of_a_parent();
        }
        let first = self.lanes.first().ok_or_else(|| Failure::new(crate::types::HIPPLAN_INTERNAL, "a plan without lanes"))?;
        Ok(first.lock().unwrap_or_else(PoisonError::into_inner))
    }

    #[inline]
    fn free_lane(&self) -> Option<MutexGuard<'_, Lane>> {
        self.lanes.iter().find_map(|lane| match lane.try_lock() {
            Ok(lane) => Some(lane),
            // An execution fills all that another left behind.
            Err(TryLockError::Poisoned(lane)) => Some(lane.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        })
    }

    /// A lane in a forked child, if there is one in bounded time: a thread of the parent that used one at the fork never gives it back here.
    #[cold]
    fn lane_of_a_parent(&self) -> Result<MutexGuard<'_, Lane>, Failure> {
        let from = Instant::now();
        while from.elapsed() < LONGEST_WAIT {
            if let Some(lane) = self.free_lane() {
                return Ok(lane);
            }
            std::thread::sleep(NAP);
        }
        let why = "the plan was bound before this process was forked, and was in use in all its lanes for a minute, perhaps by threads of the \
                   parent; bind it anew";
        Err(Failure::new(crate::types::HIPPLAN_INTERNAL, why))
    }

    /// Executes once.
    ///
    /// # Safety
    /// As of [`Lane::execute`].
    #[inline]
    pub(crate) unsafe fn execute(&self, call: &Call) -> Result<(), Failure> {
        // SAFETY: by the caller's promise.
        unsafe { self.lane()?.execute(&self.shared.device, call) }?;
        self.shared.counters.executions.add_one();
        Ok(())
    }

    /// Executes once, waits, and gives the milliseconds on the device.
    ///
    /// # Safety
    /// As of [`Lane::execute`].
    pub(crate) unsafe fn execute_timed(&self, call: &Call) -> Result<f32, Failure> {
        let device = &self.shared.device;
        let Device::Hip(hip) = device else {
            let start = Instant::now();
            // SAFETY: by the caller's promise.
            unsafe { self.execute(call) }?;
            return Ok((start.elapsed().as_secs_f64() * 1e3) as f32);
        };
        let idle = || self.events.lock().unwrap_or_else(PoisonError::into_inner);
        let known = idle().pop();
        let events = match known {
            Some(events) => events,
            None => (HipEvent::new(hip)?, HipEvent::new(hip)?),
        };
        // The lane is free again while this waits.
        // SAFETY: by the caller's promise.
        unsafe { self.lane()?.execute_between(device, call, &events) }?;
        self.shared.counters.executions.add_one();
        events.1.synchronize()?;
        let milliseconds = events.0.elapsed_ms(&events.1)?;
        let mut idle = idle();
        if idle.len() < LANES {
            idle.push(events);
        }
        Ok(milliseconds)
    }
}
