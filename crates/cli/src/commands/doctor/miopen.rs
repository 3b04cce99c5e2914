//! MIOpen's forwarding: what is set, and the split that it needs.

use super::Report;
use hipplan::{LocationVerdict, look_at_layer};
use hipplan_shim::status::{self, FORWARDING, State};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const STORE: &str = "HIPPLAN_MIOPEN_STORE";
/// Beginnings of the names of what changes what is forwarded, beside [`STEERING`]. `docs/shim.md` has them.
const NAMES: [&str; 4] = [FORWARDING, "MIOPEN_DISABLE_HIPDNN_FOR", "HIPPLAN_MIOPEN_", "HIPPLAN_LIBRARY"];
/// Beginnings of the names of what makes MIOpen answer all by itself.
const STEERING: [&str; 6] = [
    "MIOPEN_FIND_ENFORCE",
    "MIOPEN_CHECK_NUMERICS",
    "MIOPEN_DEBUG_CONV",
    "MIOPEN_DEBUG_FIND_",
    "MIOPEN_DEBUG_COMPILE_ONLY",
    "MIOPEN_DEVICE_",
];

pub(super) fn check(report: &mut Report) {
    let mut set: Vec<(String, OsString)> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
        .filter(|(name, value)| !value.is_empty() && NAMES.iter().chain(&STEERING).any(|beginning| name.starts_with(beginning)))
        .collect();
    set.sort();
    let listed: Vec<String> = set.iter().map(|(name, value)| format!("{name}={}", value.display())).collect();
    let listed = if listed.is_empty() { "off: no variable of it is set".to_owned() } else { listed.join(" ") };
    let value = set.iter().find(|(name, _)| name == FORWARDING).map(|(_, value)| &**value);
    let is_on = match value.map(is_on) {
        None => {
            report.good("forwarding", listed);
            false
        }
        Some(Some(is_on)) => {
            report.good("forwarding", listed);
            is_on
        }
        Some(None) => {
            report.warning(
                "forwarding",
                listed,
                format!("the value of {FORWARDING} is no word for on or off, and taken as off: expected `enabled`"),
            );
            false
        }
    };
    if let Some((name, _)) = set.iter().find(|(name, _)| is_on && STEERING.iter().any(|beginning| name.starts_with(beginning))) {
        report.warning("forwarding", format!("{name} may make MIOpen answer all convolutions by itself"), "leave it out: docs/shim.md");
    }
    split(is_on, report);
    if let Some((_, stores)) = set.iter().find(|(name, _)| name == STORE) {
        for store in stores.as_bytes().split(|&byte| byte == b':').filter(|store| !store.is_empty()) {
            let store = Path::new(OsStr::from_bytes(store));
            match look_at_layer(store) {
                LocationVerdict::Store | LocationVerdict::File => report.good("forwarding", format!("{STORE}: {}", store.display())),
                verdict => report.warning("forwarding", format!("{STORE}: {verdict}"), "fill it: `hipplan compile RECORDED --store DIR`"),
            }
        }
    }
}

/// The words of `docs/shim.md` for on and off.
fn is_on(value: &OsStr) -> Option<bool> {
    let is = |words: &[&str]| words.iter().any(|word| value.eq_ignore_ascii_case(word));
    if is(&["1", "on", "yes", "true", "enable", "enabled"]) {
        Some(true)
    } else if is(&["0", "off", "no", "false", "disable", "disabled"]) {
        Some(false)
    } else {
        None
    }
}

/// The MIOpen that programs load by `LD_LIBRARY_PATH`, if any.
fn split(is_on: bool, report: &mut Report) {
    let path = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let folders = path.as_bytes().split(|&byte| byte == b':').filter(|folder| !folder.is_empty());
    let found = folders.map(|folder| PathBuf::from(OsStr::from_bytes(folder))).find(|folder| folder.join("libMIOpen.so.1").exists());
    let missing = "split MIOpen and let LD_LIBRARY_PATH begin with the folder of the split: `hipplan shim split --help`";
    match found.map(|folder| (status::installed(&folder), folder)) {
        Some((Ok(installed), _)) => {
            let text = format!("split of {} in {}", installed.manifest.input.path.display(), installed.folder.display());
            let again = "run `hipplan shim split` again, or undo it with `hipplan shim unsplit`";
            match installed.state {
                State::Split => report.good("split", text),
                State::Unfinished(details) => report.problem("split", format!("{text} is unfinished: {}", details.join("; ")), again),
                State::Replaced(detail) => report.problem("split", format!("{text} was replaced: {detail}"), again),
            }
        }
        Some((Err(error), folder)) if is_on => {
            report.warning("split", format!("the MIOpen in {} is not split: {error}", folder.display()), missing);
        }
        None if is_on => {
            report.warning("split", "no folder of LD_LIBRARY_PATH has a MIOpen", format!("unless it was split in place: {missing}"))
        }
        Some((Err(_), folder)) => report.good("split", format!("the MIOpen in {} is not split", folder.display())),
        None => report.good("split", "no folder of LD_LIBRARY_PATH has a MIOpen; `hipplan shim status DIR` tells of others"),
    }
}
