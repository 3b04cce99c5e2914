//! The development files of a split of the real MIOpen: a provider and a consumer are built with the CMake package, and bind as they should;
//! a plugin of C++ internals, built against the stock library, works behind the wrapper.

use hipplan_miopen_testing::{Language, Output, Sysroot};
use hipplan_shim::headers::{self, objects};
use hipplan_shim::install::{Options, Place};
use std::path::{Path, PathBuf};
use std::process::Command;

const PROJECT: &str = "
cmake_minimum_required(VERSION 3.13)
project(plugins C CXX)
set(MIOPEN_WITHOUT_HIP ON)
set(CMAKE_SHARED_MODULE_PREFIX \"\")
find_package(miopen CONFIG REQUIRED)
add_compile_definitions(__HIP_PLATFORM_AMD__)
include_directories(SYSTEM \"${HIP_HEADERS}\")
add_library(provider MODULE provider.c)
target_link_libraries(provider PRIVATE MIOpen_private)
add_library(provider_cpp MODULE provider_cpp.cpp)
target_link_libraries(provider_cpp PRIVATE MIOpen_private)
add_library(consumer MODULE consumer.cpp)
target_link_libraries(consumer PRIVATE MIOpen)
";

/// What each plugin does: NAME makes the names, HEADER declares them.
fn plugin(header: &str, suffix: &str) -> String {
    format!(
        "#include <miopen/{header}>
#ifdef __cplusplus
extern \"C\"
#endif
int plugin_run(void);
int plugin_run(void) {{
    size_t major = 0, minor = 0, patch = 0;
    miopenHandle_t handle = 0;
    int status = miopenGetVersion{suffix}(&major, &minor, &patch);
    status += miopenCreate{suffix}(&handle) + miopenDestroy{suffix}(handle);
    return status ? -status : (int)major;
}}
"
    )
}

const HOST: &str = "
#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        int (*run)(void) = 0;
        void *plugin = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
        if (plugin)
            *(void **)&run = dlsym(plugin, \"plugin_run\");
        printf(\"%d %s\\n\", run ? run() : -1000, run ? \"\" : dlerror());
    }
    return 0;
}
";

/// Internals with the simplest types there are.
const INTERNALS: &str = "
#include <cstdio>
#include <string>
namespace miopen {
std::string LoggingPrefix();
bool IsCacheDisabled();
}
extern \"C\" int plugin_run(void);
int plugin_run(void) {
    std::printf(\"%s|%d|\", miopen::LoggingPrefix().c_str(), miopen::IsCacheDisabled());
    return 1;
}
";

fn succeed(command: &mut Command) {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let said = [&output.stdout[..], &output.stderr[..]].concat();
    assert!(output.status.success(), "{command:?}: {}\n{}", output.status, String::from_utf8_lossy(&said));
}

/// A split of the sysroot's MIOpen, with its development files. Its shim library does nothing.
fn split(sysroot: &Sysroot, folder: &Path) -> PathBuf {
    let (source, shim, prefix) = (folder.join("shim.c"), folder.join("libhipplan_miopen.so.0"), folder.join("prefix"));
    std::fs::write(&source, "void miopen_forwarding_attach(const void *table) { (void)table; }\n").expect("written");
    succeed(Command::new("cc").args(["-shared", "-fPIC", "-Wl,-soname,libhipplan_miopen.so.0", "-o"]).arg(&shim).arg(&source));
    let options =
        Options { from: sysroot.miopen(), place: Place::Prefix(prefix.clone()), shim_library: Some(shim), library_folders: Vec::new() };
    hipplan_shim::split(&options).unwrap_or_else(|e| panic!("{e}"));
    let report = headers::generate(&sysroot.include().join("miopen/miopen.h"), &prefix).unwrap_or_else(|e| panic!("{e}"));
    assert!(report.declared > 200 && report.version.is_some(), "{report:?}");
    assert_eq!(report.not_exported, [""; 0], "the header belongs to the library");
    prefix
}

fn load(sysroot: &Sysroot, host: &Path, libraries: &Path, plugins: &[PathBuf]) -> Output {
    let run = sysroot.command(host).libraries(libraries).args(plugins).env("LD_DEBUG", "bindings").run().expect("run");
    assert!(run.status.success(), "{}", run.stdout);
    run
}

/// Symbols of MIOpen's that a plugin is bound to, and the files that have them.
fn bindings(run: &Output, plugin: &str) -> Vec<(String, String)> {
    let file = |path: &str| path.trim_end_matches(" [0]").rsplit('/').next().unwrap_or_default().to_owned();
    let binding = |line: &str| {
        let (from, rest) = line.split_once("binding file ")?.1.split_once(" to ")?;
        let (to, symbol) = rest.split_once(": normal symbol `")?;
        let symbol = symbol.split('\'').next()?;
        (file(from) == plugin && (symbol.starts_with("miopen") || symbol.contains("6miopen"))).then(|| (file(to), symbol.to_owned()))
    };
    let mut found: Vec<_> = run.stderr.lines().filter_map(binding).collect();
    found.sort();
    found.dedup();
    found
}

#[test]
fn providers_and_consumers_of_the_real_library() {
    let Some(sysroot) = Sysroot::for_test() else { return };
    if Command::new("cmake").arg("--version").output().is_err() {
        assert!(std::env::var_os("HIPPLAN_CI").is_none_or(|v| v != "1"), "cmake is needed and not installed");
        eprintln!("skipped: cmake is not installed");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let prefix = split(sysroot, folder.path());
    let (project, build) = (folder.path().join("project"), folder.path().join("build"));
    std::fs::create_dir(&project).expect("a folder");
    for (name, text) in [
        ("CMakeLists.txt", PROJECT.to_owned()),
        ("provider.c", plugin("miopen_impl.h", "_impl")),
        ("provider_cpp.cpp", format!("#define MIOPEN_BETA_API\n{}", plugin("miopen_impl.h", "_impl"))),
        ("consumer.cpp", plugin("miopen.h", "")),
    ] {
        std::fs::write(project.join(name), text).expect("written");
    }
    let mut configure = Command::new("cmake");
    configure.arg("-S").arg(&project).arg("-B").arg(&build).arg(format!("-DCMAKE_PREFIX_PATH={}", prefix.display()));
    succeed(configure.arg(format!("-DHIP_HEADERS={}", sysroot.include().display())));
    succeed(Command::new("cmake").arg("--build").arg(&build));

    let plugins = ["provider.so", "provider_cpp.so", "consumer.so"].map(|name| build.join(name));
    for (plugin, is_good) in plugins.iter().zip([true, true, false]) {
        let found = objects::read(plugin).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(found[0].is_good(), is_good, "{found:?}");
    }
    let host = sysroot.compile(folder.path(), "host", Language::C, HOST, &[], &["-Wl,--as-needed"]).expect("compiled");
    let run = load(sysroot, &host, &prefix.join("lib"), &plugins);
    assert_eq!(run.stdout.lines().map(str::trim).collect::<Vec<_>>(), ["3", "3", "3"], "{}", run.stdout);
    let functions = ["miopenCreate", "miopenDestroy", "miopenGetVersion"];
    let of = |library: &str, suffix: &str| functions.map(|f| (library.to_owned(), format!("{f}{suffix}"))).to_vec();
    assert_eq!(bindings(&run, "consumer.so"), of("libMIOpen.so.1", ""));
    assert_eq!(bindings(&run, "provider.so"), of("libMIOpen_private.so.1", "_impl"));
    assert_eq!(bindings(&run, "provider_cpp.so"), of("libMIOpen_private.so.1", "_impl"));
}

#[test]
fn consumers_of_internals_work_as_with_the_stock_library() {
    let Some(sysroot) = Sysroot::for_test() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let prefix = split(sysroot, folder.path());
    let plugin = sysroot.compile(folder.path(), "internals.so", Language::Cpp, INTERNALS, &[], &["-shared", "-fPIC"]).expect("compiled");
    let host = sysroot.compile(folder.path(), "host", Language::C, HOST, &[], &["-Wl,--as-needed"]).expect("compiled");
    let stock = load(sysroot, &host, &sysroot.lib(), std::slice::from_ref(&plugin));
    let behind = load(sysroot, &host, &prefix.join("lib"), std::slice::from_ref(&plugin));
    assert!(stock.stdout.trim_end().ends_with("|1"), "{}", stock.stdout);
    assert_eq!(behind.stdout, stock.stdout);
    let bound = bindings(&behind, "internals.so");
    assert!(bound.len() == 2 && bound.iter().all(|(library, _)| library == "libMIOpen_private.so.1"), "{bound:?}");
}
