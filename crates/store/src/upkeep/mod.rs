//! Looking after a folder of plans: what is removed, and how many files there are.

pub(crate) mod trash;
