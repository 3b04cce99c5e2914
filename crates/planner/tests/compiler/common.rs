//! Kernels to compile, and compilers to do it with.

use hipplan_planner::hip::compiler::{Clang, KernelSource};
use hipplan_serialize::Target;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The least of a macro layer.
const PRELUDE: &str = r#"
#define KERNEL(name, block) extern "C" __attribute__((global)) __attribute__((amdgpu_flat_work_group_size(block, block))) void name
#define GLOBAL __attribute__((address_space(1)))
#define SHARED __attribute__((shared))
#define TX ((int)__builtin_amdgcn_workitem_id_x())
#define BX ((int)__builtin_amdgcn_workgroup_id_x())
"#;

/// A kernel with these statements, which takes `struct Args { const GLOBAL float* x; GLOBAL float* y; float factor; int count; }`.
pub(crate) fn kernel(name: &str, block: u32, body: &str) -> KernelSource {
    let text = format!(
        "{PRELUDE}struct Args {{ const GLOBAL float* x; GLOBAL float* y; float factor; int count; }};\n\
         KERNEL({name}, {block})(const Args a)\n{{\n{body}\n}}\n"
    );
    KernelSource { name: name.to_owned(), text, kernarg_size: 24, block }
}

/// A kernel that keeps all promises: a tile in LDS, a loop, a guard around the work.
pub(crate) fn good() -> KernelSource {
    let body = "
        SHARED float tile[256];
        const int i = BX * 256 + TX;
        tile[TX] = i < a.count ? a.x[i] * a.factor : 0.0f;
        __builtin_amdgcn_s_barrier();
        float sum = 0.0f;
        for (int k = 0; k < 16; ++k) sum = __builtin_fmaf(tile[(TX + k) & 255], a.factor, sum);
        if (i < a.count) a.y[i] = sum;";
    kernel("good_0123456789abcdef", 256, body)
}

pub(crate) fn target(text: &str) -> Target {
    text.parse().unwrap_or_else(|e| panic!("{e}"))
}

/// A compiler by its name on PATH; nothing if it is not installed, which is an error where everything must be checked.
pub(crate) fn clang(name: &str) -> Option<Clang> {
    match Clang::at(Path::new(name)) {
        Ok(clang) => Some(clang),
        Err(e) if std::env::var_os("HIPPLAN_CI").is_none_or(|v| v != "1") => {
            println!("skipped: {e}");
            None
        }
        Err(e) => panic!("{e}"),
    }
}

/// A folder for what a test writes.
pub(crate) fn scratch() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

/// A program of the shell.
pub(crate) fn script(folder: &Path, name: &str, text: &str) -> PathBuf {
    let file = folder.join(name);
    std::fs::write(&file, format!("#!/bin/sh\n{text}\n")).expect("written");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).expect("made a program");
    file
}

/// A compiler that answers what it is asked like clang 19, and does something else when it compiles. `$OUT` is where it should write.
pub(crate) fn fake(folder: &Path, compiles: &str) -> PathBuf {
    let linker = script(folder, "lld", "echo 'LLD 19.1.7 (compatible with GNU linkers)'");
    let text = format!(
        r#"case "$*" in
*--version*) echo "clang version 19.1.7 (fake)"; exit 0 ;;
*--print-supported-cpus*) printf '\tgfx90a\n\tgfx1100\n\tgfx9-generic\n' >&2; exit 0 ;;
*-print-prog-name*) echo "{}"; exit 0 ;;
esac
for OUT; do :; done
{compiles}"#,
        linker.display()
    );
    script(folder, "clang", &text)
}
