//! hipplan
