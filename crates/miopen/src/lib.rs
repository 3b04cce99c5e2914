//! libhipplan_miopen.so: forwards MIOpen's convolutions into the plan store.
