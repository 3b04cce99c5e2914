//! Where the store is that nobody names.

use std::path::PathBuf;

/// The folder of the default store: what `HIPPLAN_STORE` names, else `hipplan/store` below `XDG_CACHE_HOME`, else below `~/.cache`. Relative
/// cache variables are ignored, as the XDG specification asks; nothing where no variable says a place.
pub fn default_store_path() -> Option<PathBuf> {
    let var = |name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    if let Some(path) = var("HIPPLAN_STORE") {
        return Some(path);
    }
    if let Some(cache) = var("XDG_CACHE_HOME").filter(|p| p.is_absolute()) {
        return Some(cache.join("hipplan/store"));
    }
    var("HOME").filter(|p| p.is_absolute()).map(|home| home.join(".cache/hipplan/store"))
}
