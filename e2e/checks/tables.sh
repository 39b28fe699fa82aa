#!/usr/bin/env bash
# Sends every request of the specification's tables to the stack of `make up`, by the program e2e/tests/tables.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

command -v cargo >/dev/null || die "cargo is not installed" "install Rust: https://rustup.rs"
use_context
claim_target
# The whole workspace is selected as everywhere, so that its dependencies are compiled only once.
step "Compile the program (several minutes the first time)" cargo build --profile quick --workspace --example tables
export E2E_GATEWAY_URL=http://localhost:$GATEWAY_PORT
exec "$CARGO_TARGET_DIR/$(host_triple)/quick/examples/tables"
