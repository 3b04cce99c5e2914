//! The stores that are looked into, in order.

use crate::failure::Failure;
use crate::types::{HIPPLAN_OPEN_DEGRADE, HIPPLAN_OPEN_READ_ONLY, HIPPLAN_STORE};
use hipplan_exec::{CodeObjects, Loaders};
use hipplan_serialize::{AlignedBytes, Digest, GraphKey, PlanRef, Policy, SelectionKey};
use hipplan_store::{LayerOptions, Lookup, Mode, NamedLayer, PlanBytes, SignaturePolicy, Store};
use std::collections::HashSet;
use std::ffi::{CStr, OsStr};
use std::fmt;
use std::os::unix::ffi::OsStrExt;

const NO_STORE: &str = "no store: name one, or set HIPPLAN_STORE; `hipplan store where` says why no other place is used";

/// One store of several layers, the first of which may be written; or none.
#[derive(Debug)]
pub(crate) struct Layers {
    store: Option<Store>,
    read_only: bool,
}

impl Layers {
    /// Opens stores and bundles. An unusable one fails, or with `HIPPLAN_OPEN_DEGRADE` is warned of and left out; so does having no place for
    /// one at all.
    pub(crate) fn open(paths: &[&CStr], flags: u32) -> Result<Self, Failure> {
        let (read_only, degrade) = (flags & HIPPLAN_OPEN_READ_ONLY != 0, flags & HIPPLAN_OPEN_DEGRADE != 0);
        // What a program names is a path, whatever it begins with; the environment may name a policy before one.
        let named = |path: &&CStr| NamedLayer { path: OsStr::from_bytes(path.to_bytes()).into(), signatures: None };
        let mut layers: Vec<NamedLayer> = paths.iter().map(named).collect();
        let mut has_own = true;
        if layers.is_empty() {
            let mut location = hipplan_store::locate(None);
            match location.settle() {
                Ok(path) => layers.push(NamedLayer { path: path.to_owned(), signatures: None }),
                Err(_) if !location.layers.is_empty() => has_own = false,
                Err(_) if degrade => tracing::warn!("{NO_STORE}; no plan will be found"),
                Err(_) => return Err(Failure::new(HIPPLAN_STORE, NO_STORE)),
            }
            layers.append(&mut location.layers);
        }
        if let Some(i) = layers.iter().position(|layer| layer.path.as_os_str().is_empty()) {
            return Err(Failure::argument(format!("the name of store {i} is empty")));
        }
        let own = LayerOptions::default();
        let mut store: Option<Store> = None;
        let mut is_warned = false;
        for (i, layer) in layers.iter().enumerate() {
            let path = &layer.path;
            // The first folder is the caller's own. What is read below it, and a bundle in its place, must be signed as the environment says.
            let options = match layer.options() {
                Ok(options) => options,
                // Nobody is trusted where it is not understood who is.
                Err(error) if degrade => {
                    if !std::mem::replace(&mut is_warned, true) {
                        tracing::warn!(cause = %error, "no layer below the plan store is read whose signatures this is about");
                    }
                    LayerOptions { signatures: SignaturePolicy::Require, trusted: Vec::new() }
                }
                Err(error) => return Err(Failure::new(HIPPLAN_STORE, error.to_string())),
            };
            let is_first = has_own && i == 0;
            // A bundle is served, and never written. Another file is no store.
            let is_own = is_first && !path.is_file();
            store = match store {
                None if is_own && !read_only && degrade => Some(Store::open_or_degrade(path)),
                None if is_own && !read_only => Some(Store::open(path, Mode::ReadWrite)?),
                Some(store) if degrade => Some(store.with_layer_options_or_warn(path, &options)),
                Some(store) => Some(store.with_layer_options(path, &options)?),
                None => match Store::open_layer_options(path, if is_own { &own } else { &options }) {
                    Ok(store) => Some(store),
                    Err(_) if degrade && is_first && !read_only => Some(Store::open_or_degrade(path)),
                    Err(error) if degrade => {
                        tracing::warn!(cause = %error, advice = error.advice(), "a plan store cannot be used and counts as empty");
                        None
                    }
                    Err(error) => return Err(error.into()),
                },
            };
        }
        Ok(Self { store, read_only })
    }

    /// The store that compiled plans are put into.
    #[cfg_attr(not(feature = "compile"), expect(dead_code, reason = "nothing is compiled"))]
    pub(crate) fn writable(&self) -> Result<&Store, Failure> {
        match &self.store {
            Some(store) if !self.read_only && store.is_of_a_folder() => Ok(store),
            Some(store) if !self.read_only => {
                let text = format!("{} is a bundle, nothing can be compiled into it; name a folder before it", store.root().display());
                Err(Failure::new(HIPPLAN_STORE, text))
            }
            None if !self.read_only => Err(Failure::new(HIPPLAN_STORE, NO_STORE)),
            _ => Err(Failure::new(HIPPLAN_STORE, "the stores were opened with HIPPLAN_OPEN_READ_ONLY, nothing can be compiled into them")),
        }
    }

    /// Walks the usable plans of a graph, in each of the targets from best to worst, layer by layer and the plans as their selection has
    /// them, and then those that were compiled for other requests, until `take` gives something. What cannot be used is told to `miss`.
    pub(crate) fn walk<T>(
        &self,
        graph: &GraphKey,
        preferred: Option<i64>,
        targets: &[String],
        loaders: &Loaders,
        mut miss: impl FnMut(&str, String),
        mut take: impl FnMut(&Store, PlanBytes) -> Option<T>,
    ) -> Option<T> {
        let store = self.store.as_ref()?;
        let preference = Policy::DEFAULT.preferring(preferred);
        for target in targets {
            let own = SelectionKey::new(graph, target, &Policy::DEFAULT);
            let preferred = preferred.map(|_| SelectionKey::new(graph, target, &preference));
            let mut seen: HashSet<PlanRef> = HashSet::new();
            for key in preferred.into_iter().chain([own, SelectionKey::of_all(graph, target)]) {
                let selection = match store.find_selection(&key) {
                    Lookup::Hit(selection) => selection,
                    Lookup::Miss(why) => {
                        // That nothing was compiled for other requests is no news.
                        if key == own {
                            miss(target, why.to_string());
                        }
                        continue;
                    }
                };
                for plan in selection.plans.iter().filter(|plan| seen.insert(**plan)) {
                    let bytes = match store.get_plan(plan) {
                        Lookup::Hit(bytes) => bytes,
                        Lookup::Miss(why) => {
                            miss(target, why.to_string());
                            continue;
                        }
                    };
                    if let Err(error) = loaders.accept(&bytes.view()) {
                        miss(target, format!("a plan is there and no loader accepts it: {error}"));
                        continue;
                    }
                    if let Some(taken) = take(store, bytes) {
                        return Some(taken);
                    }
                }
            }
        }
        None
    }

    /// All layers, to look into.
    #[cfg(feature = "compile")]
    pub(crate) fn store(&self) -> Option<&Store> {
        self.store.as_ref()
    }

    /// No store is left to look into.
    pub(crate) fn is_empty(&self) -> bool {
        self.store.is_none()
    }
}

impl fmt::Display for Layers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let paths: Vec<String> = self.store.iter().flat_map(Store::paths).map(|path| path.display().to_string()).collect();
        write!(f, "{} {}", if paths.len() == 1 { "store" } else { "stores" }, paths.join(", "))
    }
}

/// The code objects of a plan, of whichever layer has them. Each that is given is about to be loaded.
pub(crate) struct CodeOf<'l> {
    pub(crate) store: &'l Store,
    pub(crate) loads: &'l crate::counters::Counter,
}

impl CodeObjects for CodeOf<'_> {
    fn code_object(&self, digest: &Digest) -> Result<AlignedBytes, String> {
        let found = self.store.code_object(digest)?;
        self.loads.add_one();
        Ok(found)
    }
}
