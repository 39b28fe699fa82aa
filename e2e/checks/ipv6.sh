#!/usr/bin/env bash
# Tests a cluster without IPv4: installs the operator and the sample stack, checks each of its profiles, and checks that
# a pod outside the stack cannot connect to its stores.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

export CLUSTER_NAME=shortener-ipv6 GATEWAY_PORT=18280 IP_FAMILY=ipv6
export KUBECONFIG=$cache/kubeconfig-$CLUSTER_NAME

# Prints `<name> <address>...` for each pod.
pods() {
  kubectl get pods --all-namespaces \
    --output jsonpath='{range .items[*]}{.metadata.name}{range .status.podIPs[*]} {.ip}{end}{"\n"}{end}'
}

# connect <host> <port>: a pod without the stack's labels opens a connection. Fails with 124 if there is no answer in 5 s.
connect() {
  kubectl exec stranger -- timeout 5 bash -c "exec 3<>/dev/tcp/$1/$2"
}

# Expects no answer, which only the NetworkPolicy causes: a store that does not listen would refuse the connection, and
# a wrong name would not resolve.
expect_silence() {
  local host=${1%:*}.default.svc port=${1#*:} status=0
  kubectl exec stranger -- getent hosts "$host" >/dev/null \
    || die "the pod stranger cannot resolve $host" "compare the name with 'kubectl get services'"
  connect "$host" "$port" >/dev/null 2>&1 || status=$?
  case $status in
    124) ;;
    0) die "a pod outside the stack connects to $1" "see the NetworkPolicies of the stack, and Felix in calico.yaml" ;;
    *) die "a connection to $1 ended with code $status instead of no answer within 5 s" "see whether the pods of $host are ready" ;;
  esac
}

# The image of the database has a shell.
start_stranger() {
  local image
  image=$(kubectl get statefulset demo-postgres --output jsonpath="{.spec.template.spec.containers[0].image}")
  kubectl run stranger --image "$image" --restart Never --command -- sleep infinity
  kubectl wait --for condition=Ready --timeout 60s pod/stranger
}

if [[ ${KEEP_CLUSTER:-} != 1 ]]; then trap e2e/cluster/down.sh EXIT; fi
e2e/cluster/down.sh
e2e/cluster/up.sh cluster
e2e/cluster/sample.sh

listed=$(pods)
if grep -E ' ([0-9]+\.){3}[0-9]+( |$)' <<<"$listed"; then
  die "the pods above have IPv4 addresses, so this cluster cannot test IPv6 alone" "see IP_FAMILY in e2e/cluster/create.sh"
fi
step "Start a pod outside the stack" start_stranger
connect kubernetes.default.svc 443 || die "the pod stranger does not reach kubernetes.default.svc, so it cannot test the NetworkPolicies" "kubectl describe pod stranger"
for store in demo-postgres:5432 demo-cache:6379 demo-rabbitmq:5672 demo-qdrant:6334; do
  expect_silence "$store"
done
say "the sample stack works on IPv6 alone, and its stores refuse a pod outside the stack"
