#!/usr/bin/env bash
# Everything that must hold: formatting, lints, documentation, licences, generated code, tests.
#
# Needs cargo and a C compiler. With HIPPLAN_CI=1 the tools of some tests (flatc, strace, python3, g++, valgrind, cmake, nginx, clang 19, HIP; a Debian
# mirror, for a real MIOpen) must be there too; without it, what they check is skipped, and said to be. `.ci/run` installs them.
set -euo pipefail
cd "$(dirname "$0")/.."
# Tests bring object stores of their own, and must not meet somebody's account. The last is another name of one of Google's.
# shellcheck disable=SC2086
unset ${!AWS_@} ${!GOOGLE_@} ${!AZURE_@} SERVICE_ACCOUNT

step() { printf '\n== %s\n' "$*"; }
# Runs the rest of the line if the tool is there; says so if it is not, which is an error where everything must be checked.
with() {
    local tool=$1
    shift
    if command -v "$tool" >/dev/null 2>&1; then
        "$@"
    elif [ "${HIPPLAN_CI:-}" = 1 ]; then
        echo "error: $tool is needed and not installed" >&2
        return 1
    else
        echo "skipped: $tool is not installed"
    fi
}

step "formatting"
cargo fmt --all -- --check

step "licences of dependencies"
with python3 scripts/licences.py

step "generated code is what the schemas say"
with "${FLATC:-flatc}" schemas/generate.sh --check

step "lints"
# With what is off by default; the feature of the command turns on that of the library. The tests below build what is on by default.
cargo clippy --workspace --all-targets --locked --features hipplan-cli/remote -- -D warnings

step "documentation"
RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked --quiet

step "a real MIOpen to test with"
# Made before the tests, so that none of them waits for the network. 3: Debian's suite has none today; what needs it says so and is skipped.
sysroot=${HIPPLAN_MIOPEN_SYSROOT:-${CARGO_TARGET_DIR:-target}/miopen-sysroot}
status=0
[ -n "${HIPPLAN_MIOPEN_SYSROOT:-}" ] || scripts/miopen-sysroot "$sysroot" || status=$?
if [ $status = 0 ]; then
    cat "$sysroot/packages"
elif [ $status != 3 ] && [ "${HIPPLAN_CI:-}" = 1 ]; then
    echo "error: no MIOpen, see above" >&2
    exit 1
else
    echo "skipped: there is no MIOpen to be had"
    # So that no test asks again.
    export HIPPLAN_NO_MIOPEN=1
fi

# All of the workspace is selected each time, whatever is run of it: so packages of others are built once, with the same features.
step "tests"
cargo test --workspace --locked

step "with what is off by default: linked with HIP, and the remote tier"
others=(--features hipplan-cli/remote --test remote)
if [ -e "${HIP_PATH:-/usr}/include/hip/hip_runtime_api.h" ]; then
    others+=(--features hipplan/hip-link --test hip_link)
elif [ "${HIPPLAN_CI:-}" = 1 ]; then
    echo "error: HIP's headers are needed and not installed" >&2
    exit 1
else
    echo "skipped: HIP's headers are not installed"
fi
HIP_PATH="${HIP_PATH:-/usr}" cargo test --workspace --locked "${others[@]}"

step "tests of the emulation harness"
with python3 scripts/emulate/test_harness.py

step "machine code on an emulator"
# Not a tool that CI has: docs/verification.md says what it is.
if [ -n "${HIPPLAN_EMULATOR:-}" ]; then
    cargo build --locked --quiet -p hipplan-cli
    rm -rf target/emulation
    scripts/emulate/run_sample.py "$HIPPLAN_EMULATOR" target/emulation --hipplan "${CARGO_TARGET_DIR:-target}/debug/hipplan"
else
    echo "skipped: HIPPLAN_EMULATOR names no emulator"
fi
