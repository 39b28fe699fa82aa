#!/usr/bin/env bash
# Tests the step for other projects' CI (examples/ci) on the test cluster: it applies the stack beside it and waits
# until it is ready; a stack that does not become ready fails the step with the reason.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

work=$(mktemp -d)
trap 'rm -rf "$work"; kubectl delete namespace ci-step --ignore-not-found --wait=false >/dev/null' EXIT
export STACK_NAMESPACE=ci-step CHARTS=charts CHART_VALUES=$cache/clusters/$CLUSTER_NAME/values.yaml

examples/ci/stack-up.sh
[[ $(kubectl get --namespace ci-step sst/demo --output jsonpath='{.status.conditions[?(@.type=="Ready")].status}') == True ]] \
  || die "stack-up.sh ended before the stack was ready" "see examples/ci/stack-up.sh"

# The Secret of its database does not exist.
cat >"$work/never.yaml" <<'STACK'
apiVersion: shortener.dev/v1alpha1
kind: ShortenerStack
metadata: {name: never}
spec:
  gateway: {provider: Standalone}
  database: {external: {secretRef: {name: absent}}}
STACK
if STACK=$work/never.yaml STACK_TIMEOUT=30s examples/ci/stack-up.sh >"$work/said" 2>&1; then
  die "stack-up.sh succeeded with a stack that is not ready" "see examples/ci/stack-up.sh"
fi
grep -q SecretNotFound "$work/said" || {
  cat "$work/said"
  die "stack-up.sh does not print the reason SecretNotFound of a stack that is not ready" "see explain in examples/ci/stack-up.sh"
}
say "stack-up.sh waits until a stack is ready, and prints the reason if it does not become ready"
