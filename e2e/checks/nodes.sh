#!/usr/bin/env bash
# Drains, kills, freezes and cuts off nodes of a cluster with three of them in three zones, and prints what users saw.
# Arguments are those of the test program, such as the name of a test.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source "$(dirname "${BASH_SOURCE[0]}")/test-cluster.sh"

export CLUSTER_NAME=shortener-nodes GATEWAY_PORT=18380 WORKERS=3
export KUBECONFIG=$cache/kubeconfig-$CLUSTER_NAME

if [[ ${KEEP_CLUSTER:-} != 1 ]]; then trap e2e/cluster/down.sh EXIT; fi
claim_target
e2e/cluster/down.sh
e2e/cluster/up.sh cluster
reach_node
e2e/cluster/addons/cloudnative-pg.sh
# A client that waits for a dead node holds a connection.
ulimit -n 8192
cluster_tests nodes --test-threads=1 --nocapture "$@"
