#!/usr/bin/env bash
# Measures redirects and accepted jobs in comparison with nginx and a bare publisher, all on this machine, and says what
# has moved since the baseline. workloads/bench/README.md explains it.
#
# It takes about five minutes, without compilation.
#
#   e2e/checks/bench.sh [options]     `--help` lists them: --rounds, --seconds, --save, --zipf, --scale, …
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source "$repo/e2e/checks/pgo-lib.sh"

e2e/checks/stores.sh
claim_target
cargo build --release --workspace --bin bench --example counting-app
target=$(host_triple)
compile_app "$target"
programs=$CARGO_TARGET_DIR/$target/release
commit=$(git rev-parse --short=12 HEAD)
git diff --quiet HEAD || commit+=' with changes'
conditions=(--commit "$commit")
if [[ -s $(pgo_profile "$target") ]]; then conditions+=(--profiled); fi
"$programs/bench" --app "$programs/app" --counting "$programs/examples/counting-app" "${conditions[@]}" "$@"
