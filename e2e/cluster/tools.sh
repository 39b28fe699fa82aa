#!/usr/bin/env bash
# Puts kind, kubectl and helm into $cache/bin; `tools.sh checks` adds kubeconform and kube-score, `tools.sh helm` is helm
# alone. Every tool is built from its pinned Go module, unless a fitting one is on the PATH.
# shellcheck source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# These caches would grow without end, since every upgrade adds to them. Everything of one version fits.
compiled_limit_gib=8
downloaded_limit_gib=6

helm_package=helm.sh/helm/v4/cmd/helm

# link <program> <folder of the tool> [package]
link() {
  local program=$1
  shift
  mkdir -p "$cache/bin"
  ln -sfn "$(built "$@")/$program" "$cache/bin/$program"
}

# need <program> <folder of the tool> [package]: build it when it is not there yet, then link it. `title="..." need ...` says
# what is built when it is more than the program.
need() {
  local program=$1
  shift
  if [[ ! -d $(built "$@") ]]; then
    remedy="the Go module proxy must be reachable (go env GOPROXY)" \
      step "${title:-Build $program from its Go module}" gobuild "$@"
  fi
  link "$program" "$@"
}

# Outside of our own folder: a symlink there must not be taken for a program of the person's.
on_path() { PATH=$(printf '%s' "$PATH" | tr : '\n' | grep -vxF "$cache/bin" | paste -sd :) command -v "$1"; }

# A client may be one minor version off its server.
kubectl_fits() {
  local minor wanted
  wanted=$(sed -n 's/.*k8s.io\/kubernetes v1\.\([0-9]*\)\..*/\1/p' "$cluster_dir/tools/cluster/go.mod" | head -n 1)
  minor=$("$1" version --client 2>/dev/null | sed -n 's/^Client Version: v1\.\([0-9]*\).*/\1/p')
  [[ -n $minor ]] && ((minor >= wanted - 1 && minor <= wanted + 1))
}

# need_of_cluster <program> <package>: out of the build of everything that a node image is made of, where one has to be made.
need_of_cluster() {
  local program=$1 package=$2 module=$cluster_dir/tools/cluster
  if closed; then
    title="Build Kubernetes, containerd, etcd, CoreDNS, kind and Helm from their Go modules (10 minutes the first time)" \
      need "$program" "$module"
  else
    need "$program" "$module" "$package"
  fi
}

need_kubectl() {
  local found
  if found=$(on_path kubectl) && kubectl_fits "$found"; then
    rm -f "$cache/bin/kubectl"
  else
    need_of_cluster kubectl k8s.io/kubernetes/cmd/kubectl
  fi
}

size_gib() { du -s --block-size=1G "$1" 2>/dev/null | cut -f 1; }

# Go keeps what it compiled and downloaded; the finished tools are elsewhere, so over the limit it can go.
trim_go_caches() {
  local compiled downloaded
  compiled=$(size_gib "$GOCACHE")
  downloaded=$(size_gib "$GOMODCACHE")
  if ((${compiled:-0} > compiled_limit_gib)); then
    step "Empty the Go build cache ($compiled GiB)" flock "$cache/go.lock" go clean -cache
  fi
  if ((${downloaded:-0} > downloaded_limit_gib)); then
    step "Empty the Go module cache ($downloaded GiB)" flock "$cache/go.lock" go clean -modcache
  fi
}

case "${1:-cluster}" in
  cluster)
    need_of_cluster kind sigs.k8s.io/kind
    need_kubectl
    need_of_cluster helm "$helm_package"
    ;;
  checks)
    need kubeconform "$cluster_dir/tools/kubeconform"
    need kube-score "$cluster_dir/tools/kube-score"
    need helm "$cluster_dir/tools/cluster" "$helm_package" # the chart is checked without an engine
    ;;
  helm) need helm "$cluster_dir/tools/cluster" "$helm_package" ;;
  trim) trim_go_caches ;;
  *) die "unknown argument: $1" "tools.sh [cluster|checks|helm|trim]" ;;
esac
