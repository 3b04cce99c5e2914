//! Convolution: find, run and immediate mode of the three directions. Each function orders its arguments by role, lets [`decide`] say who
//! answers, and has [`answer`](crate::answer) or the private library do so.
#![expect(non_snake_case, reason = "the names are MIOpen's")]

use super::guard;
use crate::answer::{Memory, Ours, Workspace, answered, recorded_run};
use crate::counters::{self, Decline};
use crate::decide;
use crate::problem::Descriptors;
use crate::routing::{self, EntryPoint};
use crate::{config, handles, hipplan, last_error, recorder, solution_id};
use hipplan_miopen_abi::status::{self, Status};
use hipplan_miopen_abi::types::{ConvAlgoPerf, ConvSolution, ConvolutionDescriptor, Enum, Handle, TensorDescriptor};
use hipplan_serialize::ConvDirection;
use std::ffi::{c_int, c_void};

/// Whether immediate mode's id is one of MIOpen's.
#[inline]
fn is_foreign(point: EntryPoint, id: u64) -> bool {
    let is_foreign = !solution_id::is_ours(id);
    if is_foreign && !is_excluded(point) {
        decide::declined(point, Decline::ForeignSolution);
    }
    is_foreign
}

/// Whether the environment leaves the family to MIOpen, so that only ids are looked at: of ours, none can be run.
#[inline]
fn is_excluded(point: EntryPoint) -> bool {
    routing::excluded(point.family(), config::get()).is_some()
}

/// An id of ours for a problem that is none of ours.
#[cold]
fn stray(point: EntryPoint, id: u64) -> Status {
    let text = format_args!("{}: solution {id:#x} is a stored plan's, and none of the problem's can be run in this process", point.name());
    decide::failed(point, status::BAD_PARM, hipplan::status::INVALID_ARGUMENT, text)
}

/// An id of ours where the environment leaves the family to MIOpen, which the trace has told already.
#[cold]
fn refused(point: EntryPoint, id: u64) -> Status {
    counters::failure(point.family());
    let text =
        format_args!("{}: solution {id:#x} is a stored plan's, and the environment leaves all of these calls to MIOpen", point.name());
    last_error::fail(status::BAD_PARM, hipplan::status::INVALID_ARGUMENT, text)
}

/// Memory by role; what is read is not written to by a plan.
macro_rules! memory {
    ($first:ident $first_memory:ident, $second:ident $second_memory:ident => $out:ident $out_memory:ident) => {
        Memory { $first: $first_memory.cast_mut(), $second: $second_memory.cast_mut(), $out: $out_memory }
    };
}

/// The functions of a direction. Behind each name are the tensors in the order of its arguments: the two that are read, then the one that is
/// written, each with the name of its memory.
macro_rules! direction {
    (
        $direction:ident,
        find $f1:ident $f1_memory:ident, $f2:ident $f2_memory:ident => $out:ident $out_memory:ident,
        immediate $i1:ident $i1_memory:ident, $i2:ident $i2_memory:ident,
        $workspace_size:ident, $find:ident, $run:ident,
        $solution_count:ident, $solution:ident, $solution_workspace:ident, $compile:ident, $immediate:ident,
    ) => {
        /// Decides, and gives the plan's workspace.
        ///
        /// # Safety
        /// As MIOpen's.
        pub unsafe extern "C" fn $workspace_size(
            handle: Handle,
            $i1: TensorDescriptor,
            $i2: TensorDescriptor,
            conv: ConvolutionDescriptor,
            $out: TensorDescriptor,
            size: *mut usize,
        ) -> Status {
            const POINT: EntryPoint = EntryPoint::$workspace_size;
            guard(POINT, || {
                let objects = Descriptors { handle, conv, $i1, $i2, $out };
                // SAFETY: the caller's objects.
                let answer = unsafe { decide::query(POINT, ConvDirection::$direction, &objects) };
                // SAFETY: the caller's place for the answer.
                let ours = |ours: Ours| unsafe { ours.workspace_size(size) };
                answered(POINT, answer, ours, || native!($workspace_size(handle, $i1, $i2, conv, $out, size)))
            })
        }

        /// Decides, runs the plan once, and gives its time.
        ///
        /// # Safety
        /// As MIOpen's.
        pub unsafe extern "C" fn $find(
            handle: Handle,
            $f1: TensorDescriptor,
            $f1_memory: *const c_void,
            $f2: TensorDescriptor,
            $f2_memory: *const c_void,
            conv: ConvolutionDescriptor,
            $out: TensorDescriptor,
            $out_memory: *mut c_void,
            requested: c_int,
            returned: *mut c_int,
            results: *mut ConvAlgoPerf,
            workspace: *mut c_void,
            workspace_size: usize,
            exhaustive: u8,
        ) -> Status {
            const POINT: EntryPoint = EntryPoint::$find;
            guard(POINT, || {
                let objects = Descriptors { handle, conv, $f1, $f2, $out };
                // SAFETY: the caller's objects.
                let answer = unsafe { decide::query(POINT, ConvDirection::$direction, &objects) };
                let memory = memory!($f1 $f1_memory, $f2 $f2_memory => $out $out_memory);
                let given = Workspace::given(workspace, workspace_size);
                // SAFETY: the caller's memory and places for the answers.
                let ours = |ours: Ours| unsafe { ours.find(handle, memory, requested, returned, results, given) };
                answered(POINT, answer, ours, || {
                    handles::native_call(handle);
                    native!($find(
                        handle, $f1, $f1_memory, $f2, $f2_memory, conv, $out, $out_memory, requested, returned, results, workspace,
                        workspace_size, exhaustive,
                    ))
                })
            })
        }

        /// Runs the plan, if the problem has one. The algorithm does not matter.
        ///
        /// # Safety
        /// As MIOpen's.
        pub unsafe extern "C" fn $run(
            handle: Handle,
            alpha: *const c_void,
            $f1: TensorDescriptor,
            $f1_memory: *const c_void,
            $f2: TensorDescriptor,
            $f2_memory: *const c_void,
            conv: ConvolutionDescriptor,
            algorithm: Enum,
            beta: *const c_void,
            $out: TensorDescriptor,
            $out_memory: *mut c_void,
            workspace: *mut c_void,
            workspace_size: usize,
        ) -> Status {
            const POINT: EntryPoint = EntryPoint::$run;
            guard(POINT, || {
                let objects = Descriptors { handle, conv, $f1, $f2, $out };
                // SAFETY: the caller's objects.
                let answer = unsafe { decide::look_up(POINT, ConvDirection::$direction, &objects) };
                let memory = memory!($f1 $f1_memory, $f2 $f2_memory => $out $out_memory);
                let given = Workspace::given(workspace, workspace_size);
                // SAFETY: the caller's memory and scalars.
                let ours = |ours: Ours| unsafe { ours.run(handle, alpha, memory, beta, given) };
                answered(POINT, answer, ours, || {
                    if recorder::is_on()
                        // SAFETY: the caller's objects.
                        && let Ok(key) = unsafe { objects.read(ConvDirection::$direction) }
                    {
                        // SAFETY: the caller's scalars.
                        unsafe { recorded_run(&key, alpha, beta) };
                    }
                    handles::native_call(handle);
                    native!($run(
                        handle, alpha, $f1, $f1_memory, $f2, $f2_memory, conv, algorithm, beta, $out, $out_memory, workspace,
                        workspace_size,
                    ))
                })
            })
        }

        /// Decides: a stored plan is the one solution.
        ///
        /// # Safety
        /// As MIOpen's.
        pub unsafe extern "C" fn $solution_count(
            handle: Handle,
            $i1: TensorDescriptor,
            $i2: TensorDescriptor,
            conv: ConvolutionDescriptor,
            $out: TensorDescriptor,
            count: *mut usize,
        ) -> Status {
            const POINT: EntryPoint = EntryPoint::$solution_count;
            guard(POINT, || {
                let objects = Descriptors { handle, conv, $i1, $i2, $out };
                // SAFETY: the caller's objects.
                let answer = unsafe { decide::query(POINT, ConvDirection::$direction, &objects) };
                // SAFETY: the caller's place for the answer.
                let ours = |ours: Ours| unsafe { ours.solution_count(count) };
                answered(POINT, answer, ours, || native!($solution_count(handle, $i1, $i2, conv, $out, count)))
            })
        }

        /// Decides, and gives the plan as a solution.
        ///
        /// # Safety
        /// As MIOpen's.
        pub unsafe extern "C" fn $solution(
            handle: Handle,
            $i1: TensorDescriptor,
            $i2: TensorDescriptor,
            conv: ConvolutionDescriptor,
            $out: TensorDescriptor,
            most: usize,
            count: *mut usize,
            solutions: *mut ConvSolution,
        ) -> Status {
            const POINT: EntryPoint = EntryPoint::$solution;
            guard(POINT, || {
                let objects = Descriptors { handle, conv, $i1, $i2, $out };
                // SAFETY: the caller's objects.
                let answer = unsafe { decide::query(POINT, ConvDirection::$direction, &objects) };
                // SAFETY: the caller's places for the answers.
                let ours = |ours: Ours| unsafe { ours.solution(most, count, solutions) };
                answered(POINT, answer, ours, || native!($solution(handle, $i1, $i2, conv, $out, most, count, solutions)))
            })
        }

        /// Decides, and gives the workspace of our solution; other solutions are MIOpen's.
        ///
        /// # Safety
        /// As MIOpen's.
        pub unsafe extern "C" fn $solution_workspace(
            handle: Handle,
            $i1: TensorDescriptor,
            $i2: TensorDescriptor,
            conv: ConvolutionDescriptor,
            $out: TensorDescriptor,
            id: u64,
            size: *mut usize,
        ) -> Status {
            const POINT: EntryPoint = EntryPoint::$solution_workspace;
            guard(POINT, || {
                if is_foreign(POINT, id) {
                    return native!($solution_workspace(handle, $i1, $i2, conv, $out, id, size));
                }
                if is_excluded(POINT) {
                    return refused(POINT, id);
                }
                let objects = Descriptors { handle, conv, $i1, $i2, $out };
                // SAFETY: the caller's objects.
                let answer = unsafe { decide::query(POINT, ConvDirection::$direction, &objects) };
                // SAFETY: the caller's place for the answer.
                answered(POINT, answer, |ours| unsafe { ours.solution_workspace(size) }, || stray(POINT, id))
            })
        }

        /// Decides, and has nothing left to do for our solution; other solutions are MIOpen's.
        ///
        /// # Safety
        /// As MIOpen's.
        pub unsafe extern "C" fn $compile(
            handle: Handle,
            $i1: TensorDescriptor,
            $i2: TensorDescriptor,
            conv: ConvolutionDescriptor,
            $out: TensorDescriptor,
            id: u64,
        ) -> Status {
            const POINT: EntryPoint = EntryPoint::$compile;
            guard(POINT, || {
                if is_foreign(POINT, id) {
                    return native!($compile(handle, $i1, $i2, conv, $out, id));
                }
                if is_excluded(POINT) {
                    return refused(POINT, id);
                }
                let objects = Descriptors { handle, conv, $i1, $i2, $out };
                // SAFETY: the caller's objects.
                let answer = unsafe { decide::query(POINT, ConvDirection::$direction, &objects) };
                answered(POINT, answer, |ours| ours.compile(), || stray(POINT, id))
            })
        }

        /// Runs our solution; other solutions are MIOpen's.
        ///
        /// # Safety
        /// As MIOpen's.
        pub unsafe extern "C" fn $immediate(
            handle: Handle,
            $i1: TensorDescriptor,
            $i1_memory: *const c_void,
            $i2: TensorDescriptor,
            $i2_memory: *const c_void,
            conv: ConvolutionDescriptor,
            $out: TensorDescriptor,
            $out_memory: *mut c_void,
            workspace: *mut c_void,
            workspace_size: usize,
            id: u64,
        ) -> Status {
            const POINT: EntryPoint = EntryPoint::$immediate;
            guard(POINT, || {
                if is_foreign(POINT, id) {
                    handles::native_call(handle);
                    return native!($immediate(
                        handle, $i1, $i1_memory, $i2, $i2_memory, conv, $out, $out_memory, workspace, workspace_size, id,
                    ));
                }
                if is_excluded(POINT) {
                    return refused(POINT, id);
                }
                let objects = Descriptors { handle, conv, $i1, $i2, $out };
                // SAFETY: the caller's objects.
                let answer = unsafe { decide::first_run(POINT, ConvDirection::$direction, &objects) };
                let memory = memory!($i1 $i1_memory, $i2 $i2_memory => $out $out_memory);
                let given = Workspace::given(workspace, workspace_size);
                // SAFETY: the caller's memory.
                answered(POINT, answer, |ours| unsafe { ours.immediate(handle, memory, given, id) }, || stray(POINT, id))
            })
        }
    };
}

direction! {
    Forward,
    find x x_memory, w w_memory => y y_memory,
    immediate w w_memory, x x_memory,
    miopenConvolutionForwardGetWorkSpaceSize, miopenFindConvolutionForwardAlgorithm, miopenConvolutionForward,
    miopenConvolutionForwardGetSolutionCount, miopenConvolutionForwardGetSolution, miopenConvolutionForwardGetSolutionWorkspaceSize,
    miopenConvolutionForwardCompileSolution, miopenConvolutionForwardImmediate,
}

direction! {
    BackwardData,
    find y y_memory, w w_memory => x x_memory,
    immediate y y_memory, w w_memory,
    miopenConvolutionBackwardDataGetWorkSpaceSize, miopenFindConvolutionBackwardDataAlgorithm, miopenConvolutionBackwardData,
    miopenConvolutionBackwardDataGetSolutionCount, miopenConvolutionBackwardDataGetSolution,
    miopenConvolutionBackwardDataGetSolutionWorkspaceSize, miopenConvolutionBackwardDataCompileSolution,
    miopenConvolutionBackwardDataImmediate,
}

direction! {
    BackwardWeights,
    find y y_memory, x x_memory => w w_memory,
    immediate y y_memory, x x_memory,
    miopenConvolutionBackwardWeightsGetWorkSpaceSize, miopenFindConvolutionBackwardWeightsAlgorithm, miopenConvolutionBackwardWeights,
    miopenConvolutionBackwardWeightsGetSolutionCount, miopenConvolutionBackwardWeightsGetSolution,
    miopenConvolutionBackwardWeightsGetSolutionWorkspaceSize, miopenConvolutionBackwardWeightsCompileSolution,
    miopenConvolutionBackwardWeightsImmediate,
}
