//! How `libhipplan_miopen.so` is linked.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // The wrapper's DT_NEEDED names it so.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libhipplan_miopen.so.0");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,relro,-z,now");
    // Slots of a wrapper and callbacks of libhipplan point into it.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    // A test is the process's HIP.
    for symbol in ["hipStreamIsCapturing", "hipGetDevice"] {
        println!("cargo:rustc-link-arg-tests=-Wl,--export-dynamic-symbol={symbol}");
    }
}
