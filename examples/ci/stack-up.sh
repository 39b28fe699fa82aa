#!/usr/bin/env bash
# Installs the operator in the cluster of the current context, applies a stack, and waits until it is ready. Needs
# kubectl and helm. It is a step for the CI of other projects, used by action.yml, and also works without it.
#
#   STACK            a file with one ShortenerStack, stack.yaml beside this script by default
#   STACK_NAMESPACE  default
#   STACK_TIMEOUT    10m
#   CHARTS           where both charts are: oci://ghcr.io/shortenerstack/charts, or a folder
#   CHART_VERSION    the newest release when empty
#   CHART_VALUES     a file of values for the operator's chart, none when empty
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
stack=${STACK:-$here/stack.yaml}
namespace=${STACK_NAMESPACE:-default}
timeout=${STACK_TIMEOUT:-10m}
charts=${CHARTS:-oci://ghcr.io/shortenerstack/charts}

die() {
  printf 'error: %s\n  what to do: %s\n' "$1" "$2" >&2
  exit 1
}

# The log of a job is often the only source of information about a failure.
explain() {
  kubectl get --namespace "$namespace" shortenerstacks,pods || true
  kubectl get --namespace "$namespace" "$name" \
    --output jsonpath='{range .status.conditions[*]}{.type}={.status} {.reason}: {.message}{"\n"}{end}' || true
  kubectl logs --namespace shortener-system deployment/shortener-operator --tail 50 || true
  die "$1" "read the stack's conditions and the operator's log above"
}

[[ -f $stack ]] || die "there is no file $stack" "set the input stack (STACK) to a file with a ShortenerStack, and check out the repository before this step"
kubectl version >/dev/null || die "no cluster answers kubectl" "create one before this step, for example with helm/kind-action"

arguments=(--namespace shortener-system --create-namespace --wait --timeout "$timeout")
if [[ -n ${CHART_VERSION:-} ]]; then arguments+=(--version "$CHART_VERSION"); fi
helm upgrade --install shortener-definition "$charts/shortener-definition" "${arguments[@]}"
if [[ -n ${CHART_VALUES:-} ]]; then arguments+=(--values "$CHART_VALUES"); fi
helm upgrade --install shortener-operator "$charts/shortener-operator" "${arguments[@]}"

kubectl create namespace "$namespace" --dry-run=client --output yaml | kubectl apply --filename -
name=$(kubectl apply --namespace "$namespace" --filename "$stack" --output name)
[[ $name == shortenerstack.shortener.dev/* && $name != *$'\n'* ]] || die "$stack must contain one ShortenerStack and nothing else, but it contains: $name" "move the other objects to another file"
kubectl wait --namespace "$namespace" "$name" --for condition=Ready --timeout "$timeout" \
  || explain "$name is not ready after $timeout"
# A stack is ready as soon as it serves. Its other parts follow.
kubectl wait --namespace "$namespace" "$name" --for condition=Progressing=false --timeout "$timeout" \
  || explain "$name has not settled after $timeout"
kubectl get --namespace "$namespace" "$name" --output wide
