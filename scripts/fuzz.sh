#!/usr/bin/env bash
# Builds the fuzz targets and runs each for a while.
#
#   scripts/fuzz.sh [-b] [-s SECONDS] [-w WORKERS] [-o FOLDER] [-x N] [-m] [TARGET...]      all targets unless some are named
#
# Needs a nightly toolchain and a C++ compiler. Every target starts from corpus/fuzz/TARGET; what it finds is collected under FOLDER
# [target/fuzz], which a later run goes on from. Ends with 1 if some input crashes a reader, takes longer than a second, or makes it
# take more than 256 MiB. -s 0 runs none of them, and -b only builds. -x N first executes N random variant packs with AddressSanitizer
# watching: through the cpu provider, through a plugin in C, through libhipplan_engine.so, both built for the sanitizer too, and through the
# plugins named in HIPPLAN_PLUGINS_UNDER_TEST. -m then makes corpus/fuzz of what covers all the code that was reached, and no more.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=60 workers=1 out=$PWD/target/fuzz minimise=0 packs=0 only_build=0
while getopts bs:w:o:x:m option; do
    case $option in
    b) only_build=1 ;;
    s) seconds=$OPTARG ;;
    w) workers=$OPTARG ;;
    o) out=$OPTARG ;;
    x) packs=$OPTARG ;;
    m) minimise=1 ;;
    *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
    for file in fuzz/fuzz_targets/*.rs; do
        targets+=("$(basename "$file" .rs)")
    done
fi

# What cargo-fuzz sets: coverage for libFuzzer, AddressSanitizer, and the checks of a debug build.
triple=$(rustc +nightly -vV | sed -n 's/^host: //p')
export RUSTFLAGS="--cfg fuzzing -Zsanitizer=address -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1"
# With what hosts load, which -x has variant_packs load.
CARGO_TARGET_DIR="$out/build" cargo +nightly build --quiet --release --locked --manifest-path fuzz/Cargo.toml -p hipplan-fuzz -p hipplan-engine \
    --target "$triple"
if [ "$only_build" -eq 1 ]; then
    exit 0
fi

if [ "$packs" -gt 0 ]; then
    # The plugin in C needs a compiler whose sanitizer is that of the program that loads it, LLVM's. Its run-time is the program's.
    for CC in clang clang-22 clang-21 clang-20 clang-19 ''; do
        ! command -v "$CC" >/dev/null || break
    done
    if [ -n "$CC" ]; then
        export CC HIPPLAN_PLUGIN_CFLAGS="-fsanitize=address -fno-sanitize-link-runtime -fno-omit-frame-pointer"
    elif [ "${HIPPLAN_CI:-}" = 1 ]; then
        echo "error: no clang for the plugin in C" >&2
        exit 1
    else
        unset CC
        echo "no clang: the plugin in C is not built for AddressSanitizer"
    fi
    read -ra plugins <<<"${HIPPLAN_PLUGINS_UNDER_TEST:-}"
    "$out/build/$triple/release/variant_packs" "$packs" "$out/build/$triple/release/libhipplan_engine.so" "${plugins[@]}"
fi
# Freed memory that is kept aside would count as the readers' own.
export ASAN_OPTIONS=quarantine_size_mb=8:detect_leaks=0
bad=0
for target in "${targets[@]}"; do
    if [ "$seconds" -eq 0 ]; then
        break
    fi
    found=$out/corpus/$target crashes=$out/crashes/$target log=$out/logs/$target
    mkdir -p "$found" "$crashes" "$log" "corpus/fuzz/$target"
    program=$out/build/$triple/release/$target
    pids=()
    for ((worker = 0; worker < workers; worker++)); do
        "$program" "$found" "corpus/fuzz/$target" -max_total_time="$seconds" -timeout=1 -rss_limit_mb=256 -malloc_limit_mb=256 \
            -max_len=65536 -reload=1 -print_final_stats=1 -artifact_prefix="$crashes/" >"$log/$worker.log" 2>&1 &
        pids+=($!)
    done
    failed=0
    for pid in "${pids[@]}"; do
        wait "$pid" || failed=1
    done
    executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log"/*.log | awk '{n += $1} END {print n + 0}')
    coverage=$(grep -ho 'cov: [0-9]*' "$log"/*.log | awk '{if ($2 > n) n = $2} END {print n + 0}')
    share=$(grep -h 'reached the semantic stage' "$log"/*.log | tail -n 1 | sed 's/^[^,]*, //' || true)
    echo "$target: $executions executions in $seconds s on $workers workers, cov $coverage; ${share:-too few inputs for a share}"
    if [ "$failed" -ne 0 ]; then
        bad=1
        echo "$target: FAILED, see $log and $crashes" >&2
        grep -hE 'panicked|ERROR|SUMMARY' "$log"/*.log | head -n 5 >&2 || true
    fi
done
if [ "$minimise" -eq 1 ]; then
    for target in "${targets[@]}"; do
        new=$(mktemp -d "$out/minimised.XXXXXX")
        mkdir -p "$out/corpus/$target"
        # The smallest set that covers every edge, without how often each was passed.
        "$out/build/$triple/release/$target" -set_cover_merge=1 -use_counters=0 "$new" "corpus/fuzz/$target" "$out/corpus/$target" \
            >"$out/logs/$target/merge.log" 2>&1
        rm -r "corpus/fuzz/$target"
        mv "$new" "corpus/fuzz/$target"
        chmod 755 "corpus/fuzz/$target"
        echo "$target: $(find "corpus/fuzz/$target" -type f | wc -l) inputs"
    done
fi
exit "$bad"
