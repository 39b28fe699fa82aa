#!/usr/bin/env bash
# Runs the app, a worker and their stores on this machine, without a cluster, for people who change the service. Ctrl-C
# ends everything.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

"$repo/e2e/checks/stores.sh"
cargo build --profile quick --workspace --bins --example dev
programs=$CARGO_TARGET_DIR/$(host_triple)/quick
exec "$programs/examples/dev" "$programs/app" "$programs/worker"
