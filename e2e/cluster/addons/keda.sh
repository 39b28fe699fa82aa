#!/usr/bin/env bash
# Installs KEDA in the cluster of $KUBECONFIG, for the tests of workers that it scales. Its manifest comes from its Go module,
# so other machines need Go as well. A second run changes nothing.
# shellcheck source=../lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
# shellcheck source=../../images/names.sh
. "$repo/e2e/images/names.sh"

module=github.com/kedacore/keda/v2

# Prints the manifest of the release without its webhooks, with less processor time reserved, and on a closed machine with the
# image that is built here.
manifest() {
  local source tag changes=(-e 's|cpu: 100m|cpu: 10m|')
  source=$(module_dir "$closed_dir/modules/scalers" "$module")
  tag=$(module_version scalers "$module")
  # The module names the images of its main branch. What is not installed needs no certificate.
  changes+=(-e "s|\(ghcr.io/kedacore/.*\):main|\1:$tag|")
  changes+=(-e 's|^\( *- --enable-\)cert-rotation=true|&\n\1webhook-patching=false|')
  if closed; then
    changes+=(-e 's|Policy: Always|Policy: IfNotPresent|' -e "s|ghcr.io/kedacore/.*|$keda_image|")
  fi
  kubectl kustomize "$source/config/minimal" | sed "${changes[@]}"
}

# The server of metrics starts again until the operator has made the certificate that both use.
install_keda() {
  manifest | kubectl apply --server-side --filename -
  kubectl --namespace keda rollout status --timeout 300s deployment/keda-operator
  kubectl --namespace keda rollout status --timeout 300s deployment/keda-metrics-apiserver
  kubectl wait --for condition=Available --timeout 120s apiservice/v1beta1.external.metrics.k8s.io
}

if closed; then
  "$repo/e2e/images/build.sh" scalers
  "$cluster_dir/load.sh" "$keda_image"
fi
remedy="kubectl -n keda describe pods; kubectl -n keda logs deploy/keda-operator" step "Install KEDA" install_keda
