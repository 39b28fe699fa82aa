#!/usr/bin/env bash
# Writes the profile by which the app of a release is optimized for this machine's target: workloads/app/pgo. It runs the
# benchmark with an app that counts its branches, which takes three minutes besides compiling.
#
#   e2e/checks/pgo.sh [options]     those of the benchmark
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source "$repo/e2e/checks/pgo-lib.sh"

target=$(host_triple)
profile=$(pgo_profile "$target")
# The same path each time, so that nothing is compiled again without a change.
counts=$CARGO_TARGET_DIR/pgo/counts
programs=$CARGO_TARGET_DIR/$target/release

# Prints the path of the tool that reads the counts. Its LLVM has to be that of the compiler.
llvm_profdata() {
  local major tool
  major=$(rustc -vV | sed -n 's/^LLVM version: \([0-9]*\).*/\1/p')
  for tool in "$(rustc --print target-libdir)/../bin/llvm-profdata" "llvm-profdata-$major"; do
    if command -v "$tool"; then return; fi
  done
  die "there is no llvm-profdata of LLVM $major" "run rustup component add llvm-tools, or install the package llvm-$major"
}

# Compiles the app that counts, and the benchmark.
compile() {
  claim_target
  cargo build --release --workspace --bin bench
  build_app "$target" --config "target.$target.rustflags=['-Cprofile-generate=$counts']"
}

# count [option of the benchmark]...: the tables say nothing, because counting takes time.
count() {
  rm -rf "$counts"
  "$programs/bench" --app "$programs/app" --rounds 3 --seconds 100 "$@" >/dev/null
}

# Functions that were never called stay in the profile, although they are most of it: the compiler makes them small.
write() {
  mkdir -p "${profile%/*}"
  rm -f "${profile%/*}/$target"-*
  "$merge" merge --output "$counts/merged" "$counts"/*.profraw
  xz -9 --stdout "$counts/merged" >"$profile"
}

merge=$(llvm_profdata)
e2e/checks/stores.sh
step "Compile the app that counts its branches" compile
step "Run the benchmark with it" count "$@"
step "Write $profile" write
