#!/usr/bin/env bash
# Tests the operator with a list of namespaces, on the test cluster: inside it works with Roles alone, and
# outside it does nothing and may read nothing. It changes the installed release, and changes it back.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

namespace=shortener-system
release=shortener-operator
inside=scope-inside
outside=scope-outside

# The database never answers (an address reserved for documentation): all children appear, and the test
# need not wait for a ready stack.
stack_in() {
  kubectl create namespace "$1" --dry-run=client --output yaml | kubectl apply --filename -
  kubectl create secret generic elsewhere --namespace "$1" --from-literal=url=postgres://nobody:none@192.0.2.1:5432/links
  kubectl apply --namespace "$1" --filename - <<STACK
apiVersion: shortener.dev/v1alpha1
kind: ShortenerStack
metadata: {name: scoped}
spec:
  gateway: {provider: Standalone}
  database: {external: {secretRef: {name: elsewhere}}}
STACK
}

limit_operator() {
  kubectl create namespace "$inside" --dry-run=client --output yaml | kubectl apply --filename -
  helm upgrade "$release" charts/shortener-operator --namespace "$namespace" --reuse-values \
    --set "watchNamespaces={$inside}" --wait --timeout 3m
}

widen_operator() {
  helm rollback "$release" --namespace "$namespace" --force-conflicts --wait --timeout 3m
}

# may <verb> <resource> <namespace>: true if the API server allows it to the operator's ServiceAccount.
may() {
  [[ $(kubectl auth can-i "$1" "$2" --namespace "$3" --as "system:serviceaccount:$namespace:$release") == yes ]]
}

# The outside stack is created first, so an operator that saw it would have written its status before the other's.
works_inside_only() {
  stack_in "$outside"
  stack_in "$inside"
  kubectl wait --namespace "$inside" sst/scoped --for=condition=Ready=false --timeout 60s
  kubectl wait --namespace "$inside" deployment/scoped-app --for=create --timeout 30s
  [[ -z $(kubectl get --namespace "$outside" sst/scoped --output jsonpath='{.status.conditions}') ]] \
    || die "the operator wrote a status in $outside, which it does not watch" "see WATCH_NAMESPACES in the operator"
}

has_roles_only() {
  ! kubectl get clusterrole,clusterrolebinding --selector "app.kubernetes.io/instance=$release" --output name | grep . \
    || die "with watchNamespaces the release has a ClusterRole or a ClusterRoleBinding" "see templates/rbac.yaml and templates/user-roles.yaml of the chart"
  may patch deployments.apps "$inside" || die "the operator may not patch Deployments in $inside, which it watches" "see templates/rbac.yaml of the chart"
  ! may list secrets "$outside" || die "the operator may list Secrets in $outside, which it does not watch" "see templates/rbac.yaml of the chart"
  ! kubectl logs --namespace "$namespace" "deployment/$release" | grep -i forbidden \
    || die "the API server refused requests of the operator (log above)" "see the chart's rules and what the operator watches"
}

limit_operator
trap widen_operator EXIT
works_inside_only
has_roles_only
say "with watchNamespaces={$inside} the operator works there and nowhere else"
