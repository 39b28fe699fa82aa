#!/usr/bin/env bash
# Measures the operator with BENCH_STACKS stacks without pods (300), beside BENCH_SECRETS Secrets of others (20000), by
# the program e2e/tests/bench_operator. The images are those of a release, the settings those of the chart.
#
# It creates the cluster of `make test` for that, and removes it afterwards (KEEP_CLUSTER=1 keeps it). Every step of the
# program has a limit and says every 10 s how far it is; all of them together may take three hours.
#
#   BENCH_STACKS=20 BENCH_SECRETS=200 e2e/checks/bench-operator.sh    to try it
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source "$repo/e2e/checks/test-cluster.sh"

export PROFILE=release BENCH_STACKS=${BENCH_STACKS:-300} BENCH_SECRETS=${BENCH_SECRETS:-20000}

# Without the Gateway, which the tests need: it would use the same processor.
bench_cluster() {
  e2e/cluster/down.sh && e2e/cluster/up.sh cluster
}

measure() {
  local begin=$SECONDS
  E2E_POSTGRES_IMAGE=$(operator_setting POSTGRES_IMAGE "$(default_image POSTGRES_IMAGE)")
  export E2E_POSTGRES_IMAGE
  timeout 3h "$CARGO_TARGET_DIR/$(host_triple)/release/examples/bench-operator"
  say "measured in $(((SECONDS - begin) / 60)) min, on $(nproc) cores that the whole cluster shares"
}

claim_cluster
# The whole workspace is selected as everywhere, so that its dependencies are compiled only once.
step "Compile the program" cargo build --release --workspace --example bench-operator 8>&-
bench_cluster 8>&-
measure 8>&-
