#!/usr/bin/env bash
# Drains, kills, freezes and cuts off nodes of a cluster with three of them in three zones, and prints what users saw.
# Arguments are those of the test program, such as the name of a test.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source "$(dirname "${BASH_SOURCE[0]}")/test-cluster.sh"

# Without CloudNativePG no other server takes over. A second pod on another node does its work when a node dies.
two_of_cloudnative_pg() {
  local spread='{"topologyKey": "kubernetes.io/hostname", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"'
  spread+=', "labelSelector": {"matchLabels": {"app.kubernetes.io/name": "cloudnative-pg"}}'
  spread+=', "matchLabelKeys": ["pod-template-hash"]}'
  kubectl --namespace cnpg-system patch deployment cnpg-controller-manager --patch \
    '{"spec": {"replicas": 2, "template": {"spec": {"topologySpreadConstraints": ['"$spread"']}}}}'
  kubectl --namespace cnpg-system rollout status --timeout 180s deployment/cnpg-controller-manager
}

export CLUSTER_NAME=shortener-nodes GATEWAY_PORT=18380 WORKERS=3
export KUBECONFIG=$cache/kubeconfig-$CLUSTER_NAME

if [[ ${KEEP_CLUSTER:-} != 1 ]]; then trap e2e/cluster/down.sh EXIT; fi
claim_target
e2e/cluster/down.sh
e2e/cluster/up.sh cluster
reach_node
e2e/cluster/addons/cloudnative-pg.sh
e2e/cluster/addons/rabbitmq-operator.sh
two_of_cloudnative_pg
# A client that waits for a dead node holds a connection.
ulimit -n 8192
cluster_tests nodes --test-threads=1 --nocapture "$@"
