//! libhipplan.so.0: hipplan for C.
