//! What a plugin says of itself when it is loaded.

use super::answers::{failure, repeated, room, stored};
use super::symbols::Symbols;
use super::text;
use hipplan_engine_abi::status::{NOT_APPLICABLE, PluginType, SUCCESS, Status, TYPE_ENGINE};
use hipplan_engine_abi::symbols as names;
use hipplan_serialize::{ApiVersion, engine_id, engine_id_of_text, engine_id_text};
use std::ffi::{CStr, c_char};

/// Most engines of one plugin.
const MAX_ENGINES: u32 = 4096;
/// Names of providers: plans are known by them.
const RESERVED: [&str; 2] = ["cpu", "hip"];
/// The greatest component of an API version that anybody means.
const MAX_COMPONENT: u32 = 9999;

/// A plugin that can be used.
#[derive(Clone, Debug)]
pub(super) struct Identity {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) api_version: ApiVersion,
    /// Ids of all engines, in the plugin's order.
    pub(super) ids: Vec<i64>,
}

/// Asks a plugin for its name, version, type, API version and engines.
///
/// # Errors
/// The name, where it has said that, and why the plugin is not used.
pub(super) fn identify(symbols: &Symbols) -> Result<Identity, (Option<String>, String)> {
    let name = ask(symbols, names::GET_NAME, symbols.get_name).map_err(|reason| (None, reason))?;
    let fail = |reason: String| (Some(name.clone()), reason);
    if RESERVED.contains(&name.as_str()) {
        return Err(fail(format!("it calls itself {name}, which is a built-in provider")));
    }
    let found = plugin_type(symbols).map_err(fail)?;
    if found != TYPE_ENGINE {
        return Err(fail(format!("it is a plugin of type {found}, expected {TYPE_ENGINE} (engine)")));
    }
    let api_version = match symbols.get_api_version {
        None => ApiVersion::BASELINE,
        Some(get) => ask(symbols, names::GET_API_VERSION, get).and_then(|text| api_version(&text)).map_err(fail)?,
    };
    let version = ask(symbols, names::GET_VERSION, symbols.get_version).map_err(fail)?;
    let ids = engine_ids(symbols).map_err(fail)?;
    Ok(Identity { name, version, api_version, ids })
}

/// The API version that a plugin states, which must be one that this host speaks.
fn api_version(text: &str) -> Result<ApiVersion, String> {
    let stated = || format!("its engine API version is {text:?}");
    let version: ApiVersion = text.parse().map_err(|_| format!("{}, expected MAJOR.MINOR.PATCH", stated()))?;
    let ApiVersion { major, minor, patch } = version;
    if major.max(minor).max(patch) > MAX_COMPONENT {
        return Err(format!("{}, expected numbers up to {MAX_COMPONENT}", stated()));
    }
    if major != ApiVersion::BASELINE.major {
        return Err(format!("{}, and this host speaks {}.x", stated(), ApiVersion::BASELINE.major));
    }
    Ok(version)
}

/// A text that a plugin owns.
fn ask(symbols: &Symbols, function: &CStr, get: unsafe extern "C" fn(*mut *const c_char) -> Status) -> Result<String, String> {
    let mut text = std::ptr::null();
    // SAFETY: the pointer is to a pointer.
    let status = unsafe { get(&raw mut text) };
    if status != SUCCESS {
        return Err(failure(symbols, function, status));
    }
    // SAFETY: it is null still, or a text that stays as long as the plugin is loaded.
    unsafe { text::name(text) }.map_err(|found| format!("{} gives {found}", function.to_string_lossy()))
}

fn plugin_type(symbols: &Symbols) -> Result<PluginType, String> {
    let mut found = PluginType::MIN;
    // SAFETY: the pointer is to a number.
    let status = unsafe { (symbols.get_type)(&raw mut found) };
    if status == SUCCESS { Ok(found) } else { Err(failure(symbols, names::GET_TYPE, status)) }
}

/// The two calls: how many, and which.
fn engine_ids(symbols: &Symbols) -> Result<Vec<i64>, String> {
    let function = || names::GET_ALL_ENGINE_IDS.to_string_lossy();
    let count = |ids: *mut i64, max: u32| {
        let mut num = u32::MAX;
        // SAFETY: `ids` is null with a `max` of 0, or has room for `max` ids; the other pointer is to a number.
        let status = unsafe { (symbols.get_all_engine_ids)(ids, max, &raw mut num) };
        if status == SUCCESS { Ok(num) } else { Err(failure(symbols, names::GET_ALL_ENGINE_IDS, status)) }
    };
    let expected = count(std::ptr::null_mut(), 0)?;
    if expected == 0 || expected > MAX_ENGINES {
        return Err(format!("{} counts {expected} engines, expected 1 to {MAX_ENGINES}", function()));
    }
    let mut ids = room(expected as usize);
    let found = count(ids.as_mut_ptr(), expected)?;
    if found != expected {
        return Err(format!("{} counts {expected} engines and then gives {found}", function()));
    }
    stored(&mut ids, found).map_err(|what| format!("{} {what}", function()))?;
    if let Some(twice) = repeated(&ids) {
        return Err(format!("{} gives engine {} twice", function(), engine_id_text(twice)));
    }
    Ok(ids)
}

/// The name of an engine, where it has one.
///
/// # Errors
/// Why the engine is not used.
pub(super) fn engine_name(symbols: &Symbols, id: i64) -> Result<Option<String>, String> {
    let Some(get) = symbols.get_engine_name else { return Ok(None) };
    let mut text = std::ptr::null();
    // SAFETY: the pointer is to a pointer.
    let status = unsafe { get(id, &raw mut text) };
    match status {
        SUCCESS => {}
        NOT_APPLICABLE => return Ok(None),
        status => return Err(failure(symbols, names::GET_ENGINE_NAME, status)),
    }
    // SAFETY: it is null still, or a text that stays as long as the plugin is loaded.
    let (bytes, name) = unsafe { (text::bytes(text), text::name(text)) };
    if bytes.is_none_or(|bytes| bytes.is_empty()) {
        return Ok(None);
    }
    let name = name.map_err(|found| format!("its name is {found}"))?;
    if is_id_text(&name) {
        return Ok(None);
    }
    if engine_id(&name) != id {
        let expected = engine_id_text(engine_id(&name));
        return Err(format!("its name is {name:?}, whose id is {expected}; name and id must belong together"));
    }
    Ok(Some(name))
}

/// It has the form of an id, which plans read as that id.
fn is_id_text(name: &str) -> bool {
    engine_id_text(engine_id_of_text(name)) == name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn api_versions_are_strict() {
        assert_eq!(api_version("1.0.0"), Ok(ApiVersion::BASELINE));
        assert_eq!(api_version("1.9999.7"), Ok(ApiVersion::new(1, 9999, 7)));
        for (text, why) in [
            ("1.2", "MAJOR.MINOR.PATCH"),
            ("01.2.0", "MAJOR.MINOR.PATCH"),
            ("1.2.0-beta", "MAJOR.MINOR.PATCH"),
            (" 1.2.0", "MAJOR.MINOR.PATCH"),
            ("1.99999.0", "up to 9999"),
            ("0.9.0", "this host speaks 1.x"),
            ("2.0.0", "this host speaks 1.x"),
        ] {
            let error = api_version(text).expect_err(text);
            assert!(error.contains(why) && error.contains(text), "{error}");
        }
    }

    #[test]
    fn a_name_in_the_form_of_an_id_is_none() {
        assert!(is_id_text("0x15B46865C717A122"));
        assert!(!is_id_text("0x15b46865c717a122") && !is_id_text("MIOPEN_ENGINE") && !is_id_text(""));
    }
}
