//! Splits an installed MIOpen into a wrapper and a private library, checks the result, and undoes it.
