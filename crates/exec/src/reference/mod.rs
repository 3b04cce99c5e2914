//! The numerical check: what a graph computes, by definition and in higher precision, and how far a correct implementation may be
//! from it. Every provider test and `hipplan run --check` go through [`check`].
//!
//! ```text
//! check(&graph, seed, &mut |inputs, outputs| { /* execute on some device */ Ok(()) })?.passed()
//! ```
//!
//! [`ops`] holds the definitions: plain loops in 64-bit floats that share nothing with any provider. [`evaluate()`] walks a graph
//! with them, [`Inputs`] makes numbers in the domain of whatever reads them, [`compare`] judges elements.
//!
//! # Tolerances
//!
//! Beside every value runs a bound of what a correct implementation may differ by before it stores the value. With `u` the unit
//! roundoff of the type that the node computes in, a sum of `n` products has the bound `min(n + 1, 4 sqrt(n)) u` times the sum of
//! the absolute products, whatever the order of summation: roundings are of either sign, so their sum grows with the square root
//! of their number, and 4 standard deviations are never seen. Other operations have `4 u` times the sum of the absolute values
//! that a textbook implementation combines ([`ops::pointwise_scale`]), so that cancellation inside of a function is allowed for; those
//! that do not round have 0. Reductions are sums of `n` terms, or products of `n` factors, whose relative bound is that of a sum; where
//! a part of them may overflow on the way to a result that does not, anything is right. The bounds of the inputs are carried along: through sums as absolute products, through functions by
//! evaluating them at the ends of the inputs' intervals, which finds steps and kinks too. A tensor between two nodes is rounded to
//! its type here; as a fused implementation may round it or not, its bound grows by that rounding either way, and so it does where a
//! node computes in a narrower type than it reads. An element then passes if its error is at most twice the bound plus twice half an
//! ulp of its own type, which allows for truncation too. What is computed without rounding and is a number of the type, such as a
//! maximum or a sum of products of small integers, must be exact. Integers must be exact, unless the value before rounding is within
//! twice its bound of one that rounds to another.
//!
//! | type | unit roundoff | twice half an ulp of 1 |
//! |---|---|---|
//! | double | 2^-53 | 2.2e-16 |
//! | float | 2^-24 | 1.2e-7 |
//! | half | 2^-11 | 9.8e-4 |
//! | bfloat16 | 2^-8 | 7.8e-3 |
//! | fp8_e4m3, fp8_e4m3_fnuz | 2^-4 | 0.13 |
//! | fp8_e5m2, fp8_e5m2_fnuz | 2^-3 | 0.25 |
//! | integers, boolean | 0 | exact |
//!
//! Example: a 3x3 convolution over 64 channels sums 576 products. In float it is right to `2 * 96 * 2^-24 = 1.1e-5` of the sum of
//! the absolute products; a single lost tap is 1.7e-3 of it on average. In half with float arithmetic, an ulp of the result comes
//! on top, and a lost tap, which is `1/sqrt(n)` or 4e-2 of a typical result, is still 40 times as much.

mod check;
mod compare;
mod dtype;
mod error;
mod evaluate;
mod inputs;
pub mod ops;
mod reduction;
mod tensor;

pub use check::{CheckReport, Execute, OutputTensor, Outputs, TensorReport, check, check_with};
pub use compare::{Report, compare};
pub use error::{CheckError, ReferenceError};
pub use evaluate::{Values, evaluate};
pub use inputs::{Domain, InputScalar, InputTensor, Inputs, Random};
pub use tensor::HostTensor;
