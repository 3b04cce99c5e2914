//! A convolution with its descriptors and memory, and the sequences in which programs call.

use super::*;
use hipplan_miopen::entry::conv as api;
use hipplan_miopen::problem::{Descriptors, NoKey, ProblemKey};
use hipplan_serialize::{ConvDirection, ConvEpilogue};

pub const X: usize = 0x1000;
pub const W: usize = 0x2000;
pub const Y: usize = 0x3000;
pub const STREAM: usize = 0x4000;

pub fn at(address: usize) -> *mut c_void {
    ptr::without_provenance_mut(address)
}

pub fn float(value: &f32) -> *const c_void {
    ptr::from_ref(value).cast()
}

/// A problem. Tests of one program keep apart by the batch.
#[derive(Debug)]
pub struct Case {
    pub x: Tensor,
    pub w: Tensor,
    pub y: Tensor,
    pub conv: Conv,
    /// Never freed: what is known of a handle is known by its address.
    pub stream: &'static Stream,
}

impl Case {
    /// Images of 4 channels and 5x6 pixels, 8 filters of 3x3, padded by 1.
    pub fn new(batch: i32) -> Self {
        set_up();
        let dtype = data_type::FLOAT;
        let mut conv = Conv::new(2);
        conv.pads = vec![1, 1];
        Self {
            x: Tensor::new(dtype, &[batch, 4, 5, 6]),
            w: Tensor::new(dtype, &[8, 4, 3, 3]),
            y: Tensor::new(dtype, &[batch, 8, 5, 6]),
            conv,
            stream: Box::leak(Box::new(Stream(at(STREAM)))),
        }
    }

    pub fn of_type(batch: i32, dtype: Enum) -> Self {
        let mut case = Self::new(batch);
        for tensor in [&mut case.x, &mut case.w, &mut case.y] {
            tensor.dtype = dtype;
        }
        case
    }

    pub fn handle(&self) -> Handle {
        self.stream.handle()
    }

    pub fn objects(&self) -> Descriptors {
        Descriptors {
            handle: self.handle(),
            x: self.x.descriptor(),
            w: self.w.descriptor(),
            y: self.y.descriptor(),
            conv: self.conv.descriptor(),
        }
    }

    pub fn read(&self, direction: ConvDirection) -> Result<ProblemKey, NoKey> {
        unsafe { self.objects().read(direction) }
    }

    /// The key of the graph that is asked for.
    pub fn graph(&self, direction: ConvDirection) -> GraphKey {
        self.graph_with(direction, &ConvEpilogue::NONE)
    }

    pub fn graph_with(&self, direction: ConvDirection, epilogue: &ConvEpilogue) -> GraphKey {
        let problem = self.read(direction).expect("a key").problem().expect("types that graphs have");
        problem.to_graph_with(epilogue, &Limits::DEFAULT).expect("a graph").view().canonical().expect("a key").key
    }

    /// Stores plans that need so much workspace.
    pub fn store(&self, direction: ConvDirection, workspaces: &[u64]) {
        store().graphs.insert(self.graph(direction), Stored::Plans(workspaces.to_vec()));
    }

    pub fn workspace_size(&self, direction: ConvDirection) -> (c_int, usize) {
        let mut size = usize::MAX;
        (self.workspace_size_to(direction, &raw mut size), size)
    }

    pub fn workspace_size_to(&self, direction: ConvDirection, size: *mut usize) -> c_int {
        let Descriptors { handle, x, w, y, conv } = self.objects();
        unsafe {
            match direction {
                ConvDirection::Forward => api::miopenConvolutionForwardGetWorkSpaceSize(handle, w, x, conv, y, size),
                ConvDirection::BackwardData => api::miopenConvolutionBackwardDataGetWorkSpaceSize(handle, y, w, conv, x, size),
                ConvDirection::BackwardWeights => api::miopenConvolutionBackwardWeightsGetWorkSpaceSize(handle, y, x, conv, w, size),
            }
        }
    }

    pub fn find(&self, direction: ConvDirection, workspace: (usize, usize)) -> (c_int, Option<ConvAlgoPerf>) {
        let mut returned = 0;
        let mut perf = ConvAlgoPerf { algorithm: -1, time: -1.0, memory: 7 };
        let status = self.find_to(direction, [X, W, Y], 1, &raw mut returned, &raw mut perf, workspace);
        (status, (returned == 1).then_some(perf))
    }

    pub fn find_to(
        &self,
        direction: ConvDirection,
        [px, pw, py]: [usize; 3],
        requested: c_int,
        returned: *mut c_int,
        perf: *mut ConvAlgoPerf,
        (address, size): (usize, usize),
    ) -> c_int {
        let Descriptors { handle, x, w, y, conv } = self.objects();
        let (px, pw, py, ws) = (at(px), at(pw), at(py), at(address));
        unsafe {
            match direction {
                ConvDirection::Forward => {
                    api::miopenFindConvolutionForwardAlgorithm(handle, x, px, w, pw, conv, y, py, requested, returned, perf, ws, size, 0)
                }
                ConvDirection::BackwardData => api::miopenFindConvolutionBackwardDataAlgorithm(
                    handle, y, py, w, pw, conv, x, px, requested, returned, perf, ws, size, 0,
                ),
                ConvDirection::BackwardWeights => api::miopenFindConvolutionBackwardWeightsAlgorithm(
                    handle, y, py, x, px, conv, w, pw, requested, returned, perf, ws, size, 0,
                ),
            }
        }
    }

    pub fn run(&self, direction: ConvDirection, workspace: (usize, usize)) -> c_int {
        self.run_with(direction, float(&1.0), float(&0.0), [X, W, Y], workspace)
    }

    pub fn run_with(
        &self,
        direction: ConvDirection,
        alpha: *const c_void,
        beta: *const c_void,
        [px, pw, py]: [usize; 3],
        (address, size): (usize, usize),
    ) -> c_int {
        let Descriptors { handle, x, w, y, conv } = self.objects();
        let (px, pw, py, ws) = (at(px), at(pw), at(py), at(address));
        unsafe {
            match direction {
                ConvDirection::Forward => api::miopenConvolutionForward(handle, alpha, x, px, w, pw, conv, 0, beta, y, py, ws, size),
                ConvDirection::BackwardData => {
                    api::miopenConvolutionBackwardData(handle, alpha, y, py, w, pw, conv, 0, beta, x, px, ws, size)
                }
                ConvDirection::BackwardWeights => {
                    api::miopenConvolutionBackwardWeights(handle, alpha, y, py, x, px, conv, 0, beta, w, pw, ws, size)
                }
            }
        }
    }

    pub fn solution_count(&self, direction: ConvDirection) -> (c_int, usize) {
        let Descriptors { handle, x, w, y, conv } = self.objects();
        let mut count = usize::MAX;
        let status = unsafe {
            match direction {
                ConvDirection::Forward => api::miopenConvolutionForwardGetSolutionCount(handle, w, x, conv, y, &raw mut count),
                ConvDirection::BackwardData => api::miopenConvolutionBackwardDataGetSolutionCount(handle, y, w, conv, x, &raw mut count),
                ConvDirection::BackwardWeights => {
                    api::miopenConvolutionBackwardWeightsGetSolutionCount(handle, y, x, conv, w, &raw mut count)
                }
            }
        };
        (status, count)
    }

    pub fn solution(&self, direction: ConvDirection, most: usize) -> (c_int, Option<ConvSolution>) {
        let Descriptors { handle, x, w, y, conv } = self.objects();
        let mut found = ConvSolution { time: 9.0, workspace_size: 9, solution_id: 9, algorithm: 9 };
        let (mut count, out) = (9, &raw mut found);
        let status = unsafe {
            match direction {
                ConvDirection::Forward => api::miopenConvolutionForwardGetSolution(handle, w, x, conv, y, most, &raw mut count, out),
                ConvDirection::BackwardData => {
                    api::miopenConvolutionBackwardDataGetSolution(handle, y, w, conv, x, most, &raw mut count, out)
                }
                ConvDirection::BackwardWeights => {
                    api::miopenConvolutionBackwardWeightsGetSolution(handle, y, x, conv, w, most, &raw mut count, out)
                }
            }
        };
        (status, (count == 1).then_some(found))
    }

    pub fn solution_workspace(&self, direction: ConvDirection, id: u64) -> (c_int, usize) {
        let Descriptors { handle, x, w, y, conv } = self.objects();
        let mut size = usize::MAX;
        let out = &raw mut size;
        let status = unsafe {
            match direction {
                ConvDirection::Forward => api::miopenConvolutionForwardGetSolutionWorkspaceSize(handle, w, x, conv, y, id, out),
                ConvDirection::BackwardData => api::miopenConvolutionBackwardDataGetSolutionWorkspaceSize(handle, y, w, conv, x, id, out),
                ConvDirection::BackwardWeights => {
                    api::miopenConvolutionBackwardWeightsGetSolutionWorkspaceSize(handle, y, x, conv, w, id, out)
                }
            }
        };
        (status, size)
    }

    pub fn compile(&self, direction: ConvDirection, id: u64) -> c_int {
        let Descriptors { handle, x, w, y, conv } = self.objects();
        unsafe {
            match direction {
                ConvDirection::Forward => api::miopenConvolutionForwardCompileSolution(handle, w, x, conv, y, id),
                ConvDirection::BackwardData => api::miopenConvolutionBackwardDataCompileSolution(handle, y, w, conv, x, id),
                ConvDirection::BackwardWeights => api::miopenConvolutionBackwardWeightsCompileSolution(handle, y, x, conv, w, id),
            }
        }
    }

    pub fn immediate(&self, direction: ConvDirection, (address, size): (usize, usize), id: u64) -> c_int {
        let Descriptors { handle, x, w, y, conv } = self.objects();
        let (px, pw, py, ws) = (at(X), at(W), at(Y), at(address));
        unsafe {
            match direction {
                ConvDirection::Forward => api::miopenConvolutionForwardImmediate(handle, w, pw, x, px, conv, y, py, ws, size, id),
                ConvDirection::BackwardData => api::miopenConvolutionBackwardDataImmediate(handle, y, py, w, pw, conv, x, px, ws, size, id),
                ConvDirection::BackwardWeights => {
                    api::miopenConvolutionBackwardWeightsImmediate(handle, y, py, x, px, conv, w, pw, ws, size, id)
                }
            }
        }
    }
}
