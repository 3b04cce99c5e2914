//! How `libhipplan_engine.so` is linked.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libhipplan_engine.so");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,relro,-z,now");
    // The CPU device keeps threads, which a host that closes the library would leave without code.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
