#!/usr/bin/env bash
# Writes the bill of materials of the programs, in CycloneDX 1.6, to $out/files.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

bill=$out/files/shortener-stack-$version.cdx.json

# checksums: {"<name> <version>": <digest>} of every crate from a registry.
checksums() {
  awk -F '"' '
    /^\[\[package\]\]/ { name = version = "" }
    /^name = / { name = $2 }
    /^version = / { version = $2 }
    /^checksum = / { print name " " version "\t" $2 }' Cargo.lock \
    | jq --raw-input 'split("\t") | {(.[0]): .[1]}' | jq --slurp add
}

# A UUID derived from the commit, so that the same commit gives the same file.
serial() {
  git rev-parse HEAD | sed -E 's/^(.{8})(.{4}).(.{3}).(.{3})(.{12}).*/\1-\2-5\3-8\4-\5/'
}

# Programs for Linux contain the C library of the machine that compiles them, and all programs contain Rust's own.
linked() {
  local glibc
  glibc=$(getconf GNU_LIBC_VERSION)
  jq --null-input --arg glibc "${glibc#glibc }" --arg rust "$(rustc --version | cut -d ' ' -f 2)" '{glibc: $glibc, "rust-std": $rust}'
}

mkdir -p "$out/files"
platforms=()
for target in "${image_targets[@]}"; do platforms+=(--filter-platform "$target"); done
cargo metadata --locked --format-version 1 "${platforms[@]}" | jq --from-file .ci/release/sbom.jq \
  --argjson programs "$(printf 'shortener-%s\n' "${programs[@]}" | jq --raw-input . | jq --slurp .)" \
  --argjson checksums "$(checksums)" --argjson linked "$(linked)" --argjson time "$SOURCE_DATE_EPOCH" \
  --arg serial "$(serial)" --arg version "$version" >"$bill.part"
mv "$bill.part" "$bill"
say "wrote ${bill##*/}, $(jq '.components | length' "$bill") components"
