#!/usr/bin/env bash
# Installs what the cluster of $KUBECONFIG needs besides Kubernetes: Calico (where the node image was built here; the
# public one enforces NetworkPolicies by itself) and ingress-nginx. A second run changes nothing.
# shellcheck source=../lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
# shellcheck source=../releases.sh
. "$cluster_dir/releases.sh"

addons=$cluster_dir/addons
modules=$closed_dir/modules
# shellcheck source=../../images/names.sh
. "$repo/e2e/images/names.sh"

image_id() { docker image inspect --format '{{.Id}}' "$1"; }

install_calico() {
  local source ipv6=false
  if [[ $IP_FAMILY == ipv6 ]]; then ipv6=true; fi
  source=$(module_dir "$modules/calico" github.com/projectcalico/calico)
  kubectl apply --server-side --filename "$source/libcalico-go/config/crd/"
  kubectl wait --for condition=Established --timeout 60s --filename "$source/libcalico-go/config/crd/"
  sed "s/@IMAGE_ID@/$(image_id "$calico_image")/; s/@IPV6@/$ipv6/" "$closed_dir/calico.yaml" | kubectl apply --filename -
  kubectl --namespace kube-system rollout status --timeout 120s daemonset/calico-node
}

# Waits for the pods that could not start before the network was there.
await_nodes() {
  local storage=deployment
  if closed; then storage=daemonset; fi
  kubectl wait --for condition=Ready --timeout 120s node --all
  kubectl --namespace kube-system rollout status --timeout 120s deployment/coredns
  kubectl --namespace local-path-storage rollout status --timeout 120s "$storage/local-path-provisioner"
}

# The chart of the controller: the release's, or the one in the module that the controller is built from.
ingress_nginx_chart() {
  local source chart
  if closed; then
    source=$(module_dir "$modules/ingress-nginx" k8s.io/ingress-nginx)
    printf '%s\n' "$source/charts/ingress-nginx"
  else
    chart=$cache/charts/ingress-nginx-$(release ingress-nginx version).tgz
    fetch_release ingress-nginx "$chart" >&2
    printf '%s\n' "$chart"
  fi
}

install_ingress_nginx() {
  local chart values=(--values "$addons/ingress-nginx.yaml")
  chart=$(ingress_nginx_chart)
  if closed; then
    values+=(--values "$closed_dir/ingress-nginx.yaml")
    # The tag stays when the image changes.
    values+=(--set-string "controller.podAnnotations.shortener\.dev/image-id=$(image_id "$controller_image")")
  fi
  helm upgrade --install ingress-nginx "$chart" --namespace ingress-nginx --create-namespace "${values[@]}"
  kubectl --namespace ingress-nginx rollout status --timeout 180s deployment/ingress-nginx-controller
}

if closed; then
  remedy="kubectl -n kube-system describe pods; kubectl -n kube-system logs daemonset/calico-node" \
    step "Install Calico" install_calico
fi
remedy="kubectl get nodes,pods -A; kubectl describe node" \
  step "Wait for the nodes, DNS and storage" await_nodes
remedy="kubectl -n ingress-nginx describe pods; kubectl -n ingress-nginx logs deploy/ingress-nginx-controller" \
  step "Install ingress-nginx" install_ingress_nginx
