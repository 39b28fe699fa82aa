#!/usr/bin/env bash
# The program of qdrant/, the stand-in for the Qdrant server. It is compiled once per content and compiler: the engine
# takes minutes to compile, and no other part of the project needs it.
#
#   qdrant.sh        compiles the program and prints its path
#   qdrant.sh test   lints and tests it as well
#   qdrant.sh path   prints the path without compiling
# shellcheck source=../cluster/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../cluster/lib.sh"

manifest=$repo/e2e/closed/qdrant/Cargo.toml

key=$(
  cd "$repo"
  sources=(e2e/closed/qdrant/{Cargo.toml,Cargo.lock,src,tests} .cargo clippy.toml)
  (content_key "${sources[@]}" && rustc -vV) | sha256sum | cut -c 1-12
)
home=$cache/tools/qdrant-$key
if [[ ${1:-} == path ]]; then
  printf '%s\n' "$home/qdrant"
  exit
fi

# Cargo compares file times, and it treats this crate as the same one in every checkout.
forget_other_checkouts() {
  # cargo does not read the target of its own configuration here.
  cargo clean --quiet --locked --target "$(host_triple)" \
    --manifest-path "$manifest" --package qdrant-stand-in
}

# Clippy replaces the compiler for our own crate alone; `cargo clippy` would compile the engine once more.
lint_and_test() {
  forget_other_checkouts
  RUSTC_WORKSPACE_WRAPPER=clippy-driver cargo test --locked --manifest-path "$manifest"
  touch "$home/tested"
}

compile() {
  forget_other_checkouts
  cargo build --locked --manifest-path "$manifest"
  rm -rf "$home.part"
  mkdir -p "$home.part"
  cp "$CARGO_TARGET_DIR/$(host_triple)/debug/qdrant" "$home.part"
  rm -rf "${home%-*}"-????????????
  mv "$home.part" "$home"
}

# Two runs on one machine build one after the other, and the second finds the result of the first.
exec {lock}>"$cache/qdrant.lock"
flock "$lock"
export CARGO_TARGET_DIR=$CARGO_TARGET_DIR/qdrant
cd "$repo" # the flags for static linking are found from here
if [[ ! -d $home ]]; then step "Compile the stand-in for Qdrant" compile; fi
if [[ ${1:-} == test && ! -e $home/tested ]]; then step "Lint and test the stand-in for Qdrant" lint_and_test; fi
printf '%s\n' "$home/qdrant"
