//! Who the plugin and its engine are.

use hipplan_serialize::engine_id;
use std::ffi::CStr;

/// Name of the plugin.
pub const PLUGIN_NAME: &CStr = c"hipplan_engine";
/// Version of the plugin: the crate's, with its zero.
pub const PLUGIN_VERSION: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
    Ok(version) => version,
    Err(_) => panic!("a version has no zero in it"),
};
/// Version of the ABI that the plugin speaks: the newest that hipplan knows, whose features it either has or declines.
pub const API_VERSION: &CStr = c"1.4.0";
/// Name of the engine.
pub const ENGINE_NAME: &CStr = c"HIPPLAN_CPU_ENGINE";
pub(crate) const ENGINE_NAME_TEXT: &str = "HIPPLAN_CPU_ENGINE";
/// Id of the engine, by hipDNN's rule.
pub const ENGINE_ID: i64 = engine_id(ENGINE_NAME_TEXT);

#[cfg(test)]
mod tests {
    use super::*;
    use hipplan_serialize::ApiVersion;

    #[test]
    fn the_texts_are_what_they_stand_for() {
        assert_eq!(ENGINE_NAME.to_str(), Ok(ENGINE_NAME_TEXT));
        assert_eq!(PLUGIN_VERSION.to_str(), Ok(env!("CARGO_PKG_VERSION")));
        assert_eq!(API_VERSION.to_str(), Ok(&*ApiVersion::NEWEST_KNOWN.to_string()));
        // FNV-1a of the name, computed apart from this program.
        assert_eq!(ENGINE_ID, 8_379_875_839_585_914_147);
    }
}
