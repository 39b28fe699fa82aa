#!/usr/bin/env bash
# Creates a local cluster with the operator, whatever this machine already has.
#
#   up.sh            everything, then the sample stack, with a demonstration of each component (make up)
#   up.sh cluster    only up to the installed operator, for the tests
#
# CLUSTER_NAME (shortener), GATEWAY_PORT (8080) and KUBECONFIG select the cluster. Every step is a script of its own
# that does nothing if its work is done already.
# shellcheck source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# Offers a kubectl for the user, if the machine has none.
offer_kubectl() {
  if on_path kubectl >/dev/null; then return; fi
  if [[ -w /usr/local/bin && $(uname -s) == Linux ]]; then
    ln -sfn "$cache/bin/kubectl" /usr/local/bin/kubectl
    say "==> kubectl is now at /usr/local/bin/kubectl"
  else
    say "==> kubectl is not on your PATH: export PATH=\"$cache/bin:\$PATH\""
  fi
}

cluster() {
  local image images=()
  "$cluster_dir/preflight.sh"
  "$cluster_dir/engine.sh"
  decide # here, so that every part below has the same answer
  say "==> $(chosen_way)"
  if closed; then
    "$cluster_dir/parts.sh" begin
    "$repo/e2e/images/build.sh" product
    "$cluster_dir/parts.sh"
    "$repo/e2e/images/build.sh" trim
  else
    "$cluster_dir/tools.sh" cluster
    "$repo/e2e/images/build.sh"
  fi
  "$cluster_dir/tools.sh" trim
  "$cluster_dir/create.sh"
  while IFS= read -r image; do images+=("$image"); done < <("$repo/e2e/images/build.sh" list)
  "$cluster_dir/load.sh" "${images[@]}"
  "$cluster_dir/addons/install.sh"
  "$cluster_dir/chart.sh"
}

case "${1:-all}" in
  all)
    cluster
    offer_kubectl
    "$cluster_dir/sample.sh"
    ;;
  cluster) cluster ;;
  *) die "unknown argument: $1" "run it as: up.sh [cluster]" ;;
esac
say "==> up.sh took $((SECONDS / 60)) min $((SECONDS % 60)) s"
