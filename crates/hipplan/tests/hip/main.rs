//! The HIP device on a runtime without a GPU, which can be made to fail: what the executor asks of HIP, and what it makes of the answers.

#[cfg(unix)]
mod child;
mod execute;
mod faults;
mod hostile;
mod runtimes;
mod support;
