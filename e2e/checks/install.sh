#!/usr/bin/env bash
# Installs the operator as a reader of the pages does: runs the commands of docs/install.md that build, push and install a
# release, and then those of the README that install the operator and a stack. They run as printed, with a registry on this
# machine in place of the one that they name. Runs last on the cluster of the tests, because it removes their operator.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source "$repo/e2e/checks/registry.sh"
source "$repo/e2e/checks/test-cluster.sh"

work=$(mktemp -d)
trap 'stop_registry; rm -rf "$work"' EXIT

# commands <page> <heading>: prints the first block of commands of a section.
commands() {
  awk -v heading="## $2" '$0 == heading { inside = 1 } inside && /^```/ { if (open) exit; open = 1; next } open' "$1"
}

# as_printed <page> <heading>: runs the commands of a section.
as_printed() {
  say "--- $1: $2"
  bash -euo pipefail -c "trap 'kill \$(jobs -p) 2>/dev/null || true' EXIT
$(commands "$1" "$2" | sed "s,registry\.example,$registry_address,; s,oci://ghcr\.io,oci://$registry_address,")"
}

# The registry has no certificate. A machine without a registry has the images of the stores under other names.
helm() {
  if [[ $1 == install ]]; then set -- "$@" --plain-http --values "$values"; fi
  command helm "$@"
}

uninstall() {
  command helm uninstall shortener-operator --namespace "$operator_namespace" --wait --ignore-not-found
  kubectl delete customresourcedefinition shortenerstacks.shortener.dev --ignore-not-found
}

values=$work/values.yaml
sed -n '/^images:/,$p' "$cache/clusters/$CLUSTER_NAME/values.yaml" | grep -vE '^  (app|worker):' >"$values"
# The node reaches this machine by the gateway of its network.
registry_host=$(docker network inspect kind | jq --raw-output '.[0].IPAM.Config[].Gateway | select(contains("."))')
start_registry "$work/registry" "$registry_host"
docker exec --interactive "$CLUSTER_NAME-control-plane" sh -c \
  "mkdir -p /etc/containerd/certs.d/$registry_address && cat >/etc/containerd/certs.d/$registry_address/hosts.toml" <<HOSTS
[host."http://$registry_address"]
HOSTS

kubectl delete shortenerstacks --all --all-namespaces --timeout 3m
uninstall
export PROFILE=quick RELEASE_OUT=$work/release
IMAGE_TARGETS=$(host_triple)
export IMAGE_TARGETS values
export -f helm
as_printed docs/install.md "Without a published release"
kubectl --namespace "$operator_namespace" rollout status deployment/shortener-operator --timeout 3m
uninstall
answer=$(as_printed README.md "Install it on your cluster" | tee /dev/stderr | tail -n 1)
jq --exit-status '.code and .short_url' <<<"$answer" || die "the last command of the README printed no short URL" "kubectl describe sst demo"
say "the commands of docs/install.md and README.md lead to a stack that answers"
