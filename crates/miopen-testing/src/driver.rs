//! MIOpenDriver and what it says of its results.

use crate::program::{Output, Program, ProgramError};
use crate::sysroot::Sysroot;

/// What the driver says of one direction.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// `Forward Convolution`, `Backward Convolution Data`, `Backward Convolution Weights`, or as the driver calls it.
    pub what: String,
    /// Whether the CPU reference was met. A comparison with a reference on the device does not count.
    pub verified: bool,
    /// The driver's line.
    pub line: String,
}

/// A run of the driver.
#[derive(Debug)]
pub struct DriverRun {
    /// One for each direction that was verified, in the order of the driver's lines.
    pub verdicts: Vec<Verdict>,
    /// `GPU Kernel Time`, milliseconds, in the order of the driver's lines; only with `-t 1`.
    pub kernel_times: Vec<f64>,
    /// Numbers and names of the solutions that ran, such as `85/ConvDirectNaiveConvFwd`.
    pub solutions: Vec<String>,
    /// The run.
    pub output: Output,
}

impl DriverRun {
    /// Whether so many directions were verified, and none was not. The driver's exit status is not asked: it is 0 after runs that
    /// computed nothing.
    pub fn verified(&self, directions: usize) -> bool {
        self.verdicts.len() == directions && self.verdicts.iter().all(|v| v.verified)
    }

    fn of(output: Output) -> Self {
        let mut run = Self { verdicts: Vec::new(), kernel_times: Vec::new(), solutions: Vec::new(), output };
        for line in run.output.stdout.lines() {
            if let Some((what, _)) = line.split_once(" Verifies OK on ") {
                let verified = line.contains(" Verifies OK on CPU reference");
                run.verdicts.push(Verdict { what: what.to_owned(), verified, line: line.to_owned() });
            } else if let Some((what, _)) = line.split_once(" FAILED: ") {
                run.verdicts.push(Verdict { what: what.to_owned(), verified: false, line: line.to_owned() });
            } else if line.starts_with("GPU Kernel Time ") {
                let time = line.split_once("Elapsed: ").and_then(|(_, rest)| rest.split(' ').next()).and_then(|t| t.parse::<f64>().ok());
                run.kernel_times.extend(time);
            } else if let Some((_, solution)) = line.split_once(", Solution: ") {
                run.solutions.push(solution.trim().to_owned());
            }
        }
        run
    }
}

impl Sysroot {
    /// MIOpenDriver with the words of a command line, such as `conv -n 2 -F 1`.
    pub fn driver(&self, line: &str) -> Program<'_> {
        self.command(self.driver_path()).args(line.split_whitespace())
    }
}

impl Program<'_> {
    /// Runs MIOpenDriver and reads its verdicts.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn verdicts(&self) -> Result<DriverRun, ProgramError> {
        self.run().map(DriverRun::of)
    }
}
