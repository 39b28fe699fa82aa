#!/usr/bin/env bash
# Compiles the programs of a release into $out/bin/<target>/: for Linux all of them, for other systems those that users
# run on their own machines.
#
#   .ci/release/binaries.sh [target]...     both targets of the images when none is named
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source e2e/checks/pgo-lib.sh

# names <target>: the names of its programs.
names() {
  local names=("${tools[@]}")
  if [[ $(system_of "$1") == linux ]]; then names+=("${programs[@]}"); fi
  printf '%s\n' "${names[@]}" | sort -u
}

# is_foreign <target>: true for another architecture than this machine's.
is_foreign() { [[ $(host_triple) != "${1%%-*}"-* ]]; }

# Installs a linker, and a C compiler for ring, for another architecture on this Linux machine. Debian
# and Ubuntu use the same names.
cross_compiler() {
  local target=$1 architecture=${1%%-*} packages
  if [[ $(system_of "$target") != linux ]] || ! is_foreign "$target"; then return; fi
  if ! command -v "$architecture-linux-gnu-gcc" >/dev/null; then
    packages=("gcc-$(tr _ - <<<"$architecture")-linux-gnu" "libc6-dev-$(architecture_of "$target")-cross")
    step "Install ${packages[*]}" apt_install "${packages[@]}"
  fi
  export "CC_$(tr - _ <<<"$target")=$architecture-linux-gnu-gcc"
  export "CARGO_TARGET_$(tr a-z- A-Z_ <<<"$target")_LINKER=$architecture-linux-gnu-gcc"
}

# path_flags <target>: the arguments of cargo that keep this machine's source and output folders out of
# the binaries. The profile quick shares its output with the tests, and any such argument, even an empty
# one, would recompile everything.
path_flags() {
  local target=$1 cargo_home=${CARGO_HOME:-$HOME/.cargo} flags
  if [[ $profile == quick ]]; then return; fi
  flags=$(printf '"--remap-path-prefix=%s",' "$CARGO_TARGET_DIR=/target" "$cargo_home/registry/src=/crates" "$repo=/source")
  printf '%s\n' --config "target.$target.rustflags=[$flags]"
}

# Compiles with the features of the whole workspace, so that users get the same programs as the tests.
compile() {
  local target=$1 name bins=() paths=()
  claim_target
  while IFS= read -r name; do paths+=("$name"); done < <(path_flags "$target")
  # A rehearsal only starts the programs of another architecture, so they are compiled without optimization.
  if [[ $profile == quick ]] && is_foreign "$target"; then export CARGO_PROFILE_QUICK_OPT_LEVEL=0; fi
  # Cargo recompiles crates with C code whenever SOURCE_DATE_EPOCH changes, although none of that code contains a date.
  unset SOURCE_DATE_EPOCH
  for name in $(names "$target"); do
    if [[ $name == app && $profile == release ]]; then
      compile_app "$target" --locked ${paths[@]+"${paths[@]}"}
    else
      bins+=(--bin "$name")
    fi
  done
  cargo build --locked --profile "$profile" --target "$target" ${paths[@]+"${paths[@]}"} --workspace "${bins[@]}"
}

# keep <target>: checks the compiled programs and copies them.
keep() {
  local target=$1 name file folder=$out/bin/$1
  rm -rf "$folder"
  mkdir -p "$folder"
  for name in $(names "$target"); do
    file=$CARGO_TARGET_DIR/$target/$profile/$name
    if [[ $profile != quick ]] && grep -aqF -e "$HOME/" -e "$CARGO_TARGET_DIR/" -e "$repo/" "$file"; then
      die "$file contains paths of this machine" "see path_flags in .ci/release/binaries.sh"
    fi
    if [[ $(system_of "$target") == linux ]] && readelf --program-headers --wide "$file" | grep INTERP >/dev/null; then
      die "$file is not linked statically" "unset RUSTFLAGS: it replaces the flags of .cargo/config.toml"
    fi
    cp "$file" "$folder/$name"
  done
}

if (($# == 0)); then set -- "${image_targets[@]}"; fi
# First what all targets need: a compiler that is missing must not cost the time of compiling for another target.
for target in "$@"; do
  system_of "$target" >/dev/null
  architecture_of "$target" >/dev/null
  rustup target list --installed | grep -x "$target" >/dev/null || step "Add the target $target" rustup target add "$target"
  cross_compiler "$target"
done
for target in "$@"; do
  step "Compile for $target (profile $profile)" compile "$target"
  keep "$target"
done
