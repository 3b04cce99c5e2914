//! `include/hipplan.h` is what the sources say.

use std::path::Path;

/// Set to have the header written anew.
const WRITE: &str = "HIPPLAN_WRITE_GOLDEN";

#[test]
fn the_header_is_what_the_sources_say() {
    let home = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(home.join("cbindgen.toml")).expect("cbindgen.toml");
    let sources = ["src/types.rs", "src/functions.rs"].into_iter();
    let bindings = sources.fold(cbindgen::Builder::new().with_config(config), |builder, source| builder.with_src(home.join(source)));
    let mut header = Vec::new();
    bindings.generate().expect("the sources are read").write(&mut header);
    let header = String::from_utf8(header).expect("text");
    let path = home.join("include/hipplan.h");
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(&path, &header).expect("written");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == header, "{} is not what the sources say; {WRITE}=1 writes it anew", path.display());
}
