#!/usr/bin/env bash
# Upgrades and rolls back the chart on the test cluster: from the package, with other values, and back. The
# resource definition and a stack must remain the same objects, no pod of the stack may restart, and the
# operator must work after each step.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

namespace=shortener-system
release=shortener-operator
home=chart-upgrade
label=upgraded=yes
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The database never answers (an address reserved for documentation): all children appear, and the test
# need not wait for a ready stack.
make_stack() {
  kubectl create namespace "$home" --dry-run=client --output yaml | kubectl apply --filename -
  kubectl create secret generic elsewhere --namespace "$home" --from-literal=url=postgres://nobody:none@192.0.2.1:5432/links \
    --dry-run=client --output yaml | kubectl apply --filename -
  kubectl apply --namespace "$home" --filename - <<STACK
apiVersion: shortener.dev/v1alpha1
kind: ShortenerStack
metadata: {name: kept}
spec:
  gateway: {provider: Standalone}
  database: {external: {secretRef: {name: elsewhere}}}
STACK
  kubectl wait --namespace "$home" sst/kept --for=condition=Ready=false --timeout 60s
  kubectl wait --namespace "$home" deployment/kept-app deployment/kept-gateway --for=create --timeout 60s
}

# Prints the state that an upgrade must not change: the objects, and the templates of the stack's pods.
lasting() {
  kubectl get crd shortenerstacks.shortener.dev --output jsonpath='{.metadata.uid}{"\n"}'
  kubectl get --namespace "$home" sst/kept deployment/kept-app deployment/kept-gateway \
    --output jsonpath='{range .items[*]}{.metadata.name} {.metadata.uid} {.spec.template}{"\n"}{end}'
}

# unchanged <step>
unchanged() {
  lasting >"$work/after"
  diff "$work/before" "$work/after" || die "the resource definition or the stack differs after the $1 (< before, > after)" "see crds.yaml and the labels of the chart's templates"
}

# works <replicas of the app>: the operator acts on an edit of the stack.
works() {
  kubectl patch sst/kept --namespace "$home" --type merge --patch "{\"spec\":{\"app\":{\"replicas\":$1}}}"
  kubectl wait --namespace "$home" deployment/kept-app --for="jsonpath={.spec.replicas}=$1" --timeout 90s \
    || die "the operator did not apply an edit of spec.app.replicas within 90 s" "kubectl logs deployment/$release --namespace $namespace"
}

# has_replicas <number>
has_replicas() {
  kubectl wait --namespace "$namespace" "deployment/$release" --for="jsonpath={.status.readyReplicas}=$1" --timeout 60s
  [[ $(kubectl get --namespace "$namespace" "deployment/$release" --output jsonpath='{.spec.replicas}') == "$1" ]] \
    || die "the operator's Deployment does not have $1 replicas" "kubectl get deployment/$release --namespace $namespace --output yaml"
}

# Lists the objects of the release that have the new label, the resource definition among them.
labelled() {
  kubectl get --selector "$label" --output name \
    customresourcedefinitions,clusterroles,clusterrolebindings
  kubectl get --namespace "$namespace" --selector "$label" --output name \
    deployments,services,serviceaccounts,networkpolicies,poddisruptionbudgets,roles,rolebindings
}

# Earlier tests scaled the Deployment by hand, so Helm is not the only field manager of its replicas: hence the force.
upgrade() {
  helm package charts/shortener-operator --destination "$work"
  helm upgrade "$release" "$work"/shortener-operator-*.tgz --namespace "$namespace" --reset-then-reuse-values --force-conflicts \
    --set replicaCount=2 --set-string "commonLabels.$label" --set-json 'extraArgs=["--max-concurrent-reconciles=4"]' \
    --set updateStrategy.rollingUpdate.maxSurge=1 --wait --timeout 3m
}

is_upgraded() {
  local missing object
  has_replicas 2
  labelled >"$work/labelled"
  missing=$(for object in customresourcedefinition deployment.apps service/ serviceaccount networkpolicy poddisruptionbudget clusterrole.; do
    grep -q "^$object" "$work/labelled" || printf '%s ' "$object"
  done)
  [[ -z $missing ]] || die "after the upgrade these kinds lack the label $label: $missing" "see commonLabels in the chart's templates"
  helm test "$release" --namespace "$namespace" --logs
}

# Prints Helm's record of the release: its values and its objects.
held() {
  helm get values "$release" --namespace "$namespace" --output json
  helm get manifest "$release" --namespace "$namespace"
}

roll_back() {
  helm rollback "$release" --namespace "$namespace" --force-conflicts --wait --timeout 3m
}

is_rolled_back() {
  local left
  has_replicas "$replicas"
  held | diff "$work/held" - || die "the rollback did not restore the values and the objects of the release (< before, > after)" "helm history $release --namespace $namespace"
  left=$(labelled)
  [[ -z $left ]] || die "the rollback left the label $label on $left" "helm history $release --namespace $namespace"
}

make_stack
replicas=$(kubectl get --namespace "$namespace" "deployment/$release" --output jsonpath='{.spec.replicas}')
lasting >"$work/before"
held >"$work/held"
upgrade
unchanged upgrade
is_upgraded
works 3
roll_back
unchanged rollback
is_rolled_back
works 1
kubectl delete namespace "$home" --wait=false
say "the chart is upgraded from its package and rolled back; definition and stack are the same, and the operator works"
