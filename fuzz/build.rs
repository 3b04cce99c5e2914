//! What `variant_packs` loads has no run-time of AddressSanitizer: it uses the program's, which therefore exports its symbols.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-link-arg-bin=variant_packs=-rdynamic");
}
