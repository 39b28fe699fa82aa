#!/usr/bin/env bash
# Creates a local cluster with the operator, whatever this machine already has.
#
#   up.sh            everything, with the sample stack and a demonstration of each component (make up). The stack runs with
#                    its first profiles while what the others need is still being built
#   up.sh cluster    only up to the installed operator, for the tests
#
# CLUSTER_NAME (shortener), GATEWAY_PORT (8080) and KUBECONFIG select the cluster. Every step is a script of its own
# that does nothing if its work is done already.

# The user's own, because lib.sh changes the PATH.
users_kubectl=$(command -v kubectl)
# shellcheck source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# Offers a kubectl for the user, if the machine has none.
offer_kubectl() {
  if [[ -n $users_kubectl ]]; then return; fi
  if [[ -w /usr/local/bin && $(uname -s) == Linux ]]; then
    ln -sfn "$cache/bin/kubectl" /usr/local/bin/kubectl
    say "==> kubectl is now at /usr/local/bin/kubectl"
  else
    say "==> kubectl is not on your PATH: export PATH=\"$cache/bin:\$PATH\""
  fi
}

# Leads kubectl and helm to the cluster in all later steps, because the user may choose another context meanwhile.
use_cluster() {
  mkdir -p "${cluster_kubeconfig%/*}"
  (umask 077 && kind get kubeconfig --name "$CLUSTER_NAME" >"$cluster_kubeconfig")
  export KUBECONFIG=$cluster_kubeconfig
}

cluster() {
  "$cluster_dir/preflight.sh"
  "$cluster_dir/engine.sh"
  decide # here, so that every part below has the same answer
  say "==> $(chosen_way)"
  if closed; then "$closed_dir/parts.sh" begin; else "$cluster_dir/tools.sh" cluster; fi
  "$repo/e2e/images/build.sh" early >"$early_images"
  if closed; then "$closed_dir/parts.sh" early; fi
  "$cluster_dir/create.sh"
  use_cluster
  load <"$early_images"
  "$cluster_dir/addons/install.sh"
  "$cluster_dir/chart.sh"
}

# Builds and loads what the first profiles of the stack do not need.
rest() {
  if closed; then "$closed_dir/parts.sh"; fi
  "$repo/e2e/images/build.sh"
  "$cluster_dir/tools.sh" trim
  "$repo/e2e/images/build.sh" list | load
}

# Loads the images whose names it reads into the cluster.
load() {
  local image images=()
  while IFS= read -r image; do images+=("$image"); done
  "$cluster_dir/load.sh" "${images[@]}"
}

early_images=$(mktemp)
trap 'rm -f "$early_images"' EXIT

case "${1:-all}" in
  all)
    cluster
    offer_kubectl
    "$cluster_dir/sample.sh" early
    rest
    "$cluster_dir/sample.sh"
    ;;
  cluster)
    cluster
    rest
    ;;
  *) die "unknown argument: $1" "run it as: up.sh [cluster]" ;;
esac
say "==> up.sh took $((SECONDS / 60)) min $((SECONDS % 60)) s"
