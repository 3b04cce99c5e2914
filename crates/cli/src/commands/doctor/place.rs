//! Where plans are kept, and what holds there.

use super::Report;
use crate::commands::store::{selftest, where_};
use crate::{Global, location, output, remote};
use hipplan::{LocationVerdict, Mode, NamedLayer, SelftestOutcome, SignaturePolicy, Store, selftest_probes};
use std::path::{Path, PathBuf};

/// Most bytes of a marker that are shown.
const MARKER: usize = 64;

pub(super) fn check(global: &Global, report: &mut Report) {
    let location = location::locate(global);
    match location.candidate() {
        Some(candidate) => {
            let path = candidate.path.as_deref().unwrap_or(Path::new(""));
            let text = format!("{} (said by {}): {}", path.display(), where_::source(candidate.source), candidate.verdict);
            let is_kept = !candidate.source.is_temporary();
            match candidate.verdict {
                LocationVerdict::Store | LocationVerdict::New if is_kept => report.good("store", text),
                LocationVerdict::Store | LocationVerdict::New => {
                    report.warning("store", text, "it is among temporary files; set HIPPLAN_STORE to a folder that is kept");
                }
                LocationVerdict::ReadOnly => {
                    report.warning(
                        "store",
                        text,
                        "plans are found and none is kept; choose a store that this user may write, if they are to be",
                    );
                }
                _ => report.problem("store", text, "give --store, or set HIPPLAN_STORE; `hipplan store where` tells of every place"),
            }
            if matches!(candidate.verdict, LocationVerdict::Store | LocationVerdict::ReadOnly) {
                opens(path, report);
            }
            match candidate.verdict {
                LocationVerdict::Store | LocationVerdict::New => tries(path, report),
                _ => {}
            }
        }
        None => report.problem(
            "store",
            "no place for a store: nothing is kept",
            "give --store, or set HIPPLAN_STORE; `hipplan store where` tells why no other place is used",
        ),
    }
    layers(global, &location.layers, report);
    far(global, report);
}

/// Its layout.
fn opens(path: &Path, report: &mut Report) {
    match Store::open(path, Mode::ReadOnly) {
        Ok(_) => {
            let marker = std::fs::read(path.join("hipplan-store")).unwrap_or_default();
            let marker = String::from_utf8_lossy(marker.get(..MARKER).unwrap_or(&marker)).trim().to_owned();
            report.good("layout", format!("{marker}, which this hipplan reads"));
        }
        Err(error) => report.problem("layout", error.to_string(), error.advice()),
    }
}

/// What the file system does, tried where unfinished writes of the store are; beside it where there is no store yet.
fn tries(path: &Path, report: &mut Report) {
    let folder = match folder_to_try(path) {
        Ok(folder) => folder,
        Err(error) => return report.problem("writable", format!("{}: {error}", path.display()), "check the path"),
    };
    let own = match std::env::current_exe() {
        Ok(own) => own,
        Err(error) => return report.warning("writable", format!("not tried, for this program is not found: {error}"), "mount /proc"),
    };
    let tried = match selftest_probes(&folder, &selftest::child(own)) {
        Ok(tried) => tried,
        Err(error) => return report.problem("writable", error.to_string(), error.advice()),
    };
    let file_system = tried.file_system.as_deref().unwrap_or("unknown");
    report.good("writable", format!("{}, file system {file_system}", folder.display()));
    for check in tried.checks {
        match check.outcome {
            SelftestOutcome::Good => report.good(check.name, check.text),
            SelftestOutcome::Limited => {
                report.warning(check.name, check.text, "a store works; `hipplan store selftest` and docs/store.md tell what is promised");
            }
            SelftestOutcome::Bad => report.problem(check.name, check.text, "put the store on another file system"),
        }
    }
}

fn folder_to_try(path: &Path) -> std::io::Result<PathBuf> {
    let path = std::path::absolute(path)?;
    let tmp = path.join("tmp");
    let places = std::iter::once(tmp.as_path()).chain(path.ancestors());
    places.into_iter().find(|place| place.is_dir()).map(Path::to_owned).ok_or_else(|| std::io::ErrorKind::NotFound.into())
}

fn layers(global: &Global, of_environment: &[NamedLayer], report: &mut Report) {
    match location::layer_options() {
        Ok(options) => match options.signatures {
            SignaturePolicy::Off => report.good("signatures", "off: who signed layers and bundles makes no difference"),
            policy => report.good("signatures", format!("{}, {} trusted", policy.word(), output::count(options.trusted.len(), "key"))),
        },
        Err(error) => {
            report.problem(
                "signatures",
                output::error(&error),
                "until this is put right, no remote is used, and layers only as told below",
            );
        }
    }
    for layer in location::of_options(global).chain(of_environment.iter().cloned()) {
        let options = match layer.options() {
            Ok(options) => options,
            Err(error) => {
                let text = format!("{}: {}", layer.path.display(), output::error(&error.into()));
                report.problem("layer", text, "until this is put right, no command that reads this layer goes on");
                continue;
            }
        };
        let policy = layer.signatures.map_or(String::new(), |policy| format!(", signatures {}", policy.word()));
        match Store::open_layer_options(&layer.path, &options) {
            Ok(_) => report.good("layer", format!("{}{policy}", layer.path.display())),
            Err(error) => report.problem("layer", error.to_string(), error.advice()),
        }
    }
}

/// Whether a remote could be used. It is not asked; its address may be a secret if it is a wrong one.
fn far(global: &Global, report: &mut Report) {
    let opened = remote::is_named(&global.remote)
        .and_then(|is_named| Ok(is_named.then_some(remote::behind(&global.remote, Store::nowhere(), false)?)));
    match opened {
        Ok(None) => report.good("remote", "none is named"),
        Ok(Some(_)) => report.good("remote", "one is named; it was not asked"),
        Err(error) => {
            report.problem("remote", output::error(&error), "put --remote or HIPPLAN_REMOTE right, or leave it out: docs/remote.md")
        }
    }
}
