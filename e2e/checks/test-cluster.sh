# shellcheck shell=bash
# The cluster of `make test`: a name, a port and a kubeconfig of its own, so that it runs beside `make up`.
# Sourced by e2e/test.sh after lib.sh.

export CLUSTER_NAME=shortener-test GATEWAY_PORT=18080
export KUBECONFIG=$cache/test/kubeconfig
mkdir -p "$cache/test"

cluster_up() {
  e2e/cluster/down.sh && e2e/cluster/up.sh
}

cluster_down() {
  :
}

helm_test() {
  helm test shortener-operator --namespace shortener-system --logs
}

cluster_tests() {
  E2E_GATEWAY_URL=http://127.0.0.1:$GATEWAY_PORT cargo test --release -p shortener-e2e --no-fail-fast
}

diagnose() {
  :
}
