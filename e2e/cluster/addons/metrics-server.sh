#!/usr/bin/env bash
# Installs metrics-server in the cluster of $KUBECONFIG, for the tests of an app that follows its load. Its manifest comes from
# its Go module, so other machines need Go as well. A second run changes nothing.
# shellcheck source=../lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
# shellcheck source=../../images/names.sh
. "$repo/e2e/images/names.sh"

# Prints the manifest of the release, with less processor time reserved, and on a closed machine with the image that is built
# here. The kubelets of kind have certificates that no authority of the cluster has signed.
manifest() {
  local source changes=(-e 's|cpu: 100m|cpu: 10m|')
  source=$(module_dir "$closed_dir/modules/scalers" sigs.k8s.io/metrics-server)
  changes+=(-e 's|^\( *- --kubelet-\)use-node-status-port|&\n\1insecure-tls|')
  if closed; then changes+=(-e "s|registry.k8s.io/.*|$metrics_server_image|"); fi
  kubectl kustomize "$source/manifests/overlays/release" | sed "${changes[@]}"
}

# Its pod is ready once it has the figures of the node.
install_metrics_server() {
  manifest | kubectl apply --server-side --filename -
  kubectl --namespace kube-system rollout status --timeout 180s deployment/metrics-server
  kubectl wait --for condition=Available --timeout 60s apiservice/v1beta1.metrics.k8s.io
}

if closed; then
  "$repo/e2e/images/build.sh" scalers
  "$cluster_dir/load.sh" "$metrics_server_image"
fi
remedy="kubectl -n kube-system describe pods; kubectl -n kube-system logs deploy/metrics-server" \
  step "Install metrics-server" install_metrics_server
