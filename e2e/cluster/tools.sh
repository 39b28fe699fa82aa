#!/usr/bin/env bash
# Puts kind, kubectl and helm into $cache/bin; `tools.sh checks` adds kubeconform and kube-score. Every tool is built
# from its pinned Go module, unless a fitting one is on the PATH.
# shellcheck source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# These caches would grow without end, since every upgrade adds to them.
compiled_limit_gib=4
downloaded_limit_gib=6

# link <program> <folder of the tool> [package]
link() {
  local program=$1
  shift
  mkdir -p "$cache/bin"
  ln -sfn "$(built "$@")/$program" "$cache/bin/$program"
}

# need <program> <folder of the tool> [package]: build it when it is not there yet, then link it.
need() {
  local program=$1
  shift
  if [[ ! -d $(built "$@") ]]; then
    remedy="the Go module proxy must be reachable (go env GOPROXY)" \
      step "Build $program from its Go module" gobuild "$@"
  fi
  link "$program" "$@"
}

# Outside of our own folder: a symlink there must not be taken for a program of the person's.
on_path() { PATH=$(printf '%s' "$PATH" | tr : '\n' | grep -vxF "$cache/bin" | paste -sd :) command -v "$1"; }

# A client may be one minor version off its server.
kubectl_fits() {
  local minor wanted
  wanted=$(sed -n 's/.*k8s.io\/kubernetes v1\.\([0-9]*\)\..*/\1/p' "$cluster_dir/tools/kubernetes/go.mod" | head -n 1)
  minor=$("$1" version --client 2>/dev/null | sed -n 's/^Client Version: v1\.\([0-9]*\).*/\1/p')
  [[ -n $minor ]] && ((minor >= wanted - 1 && minor <= wanted + 1))
}

need_kubectl() {
  local kubernetes=$cluster_dir/tools/kubernetes found
  if found=$(on_path kubectl) && kubectl_fits "$found"; then
    rm -f "$cache/bin/kubectl"
  elif closed; then
    need kubectl "$kubernetes" # the node image needs all of Kubernetes anyway
  else
    need kubectl "$kubernetes" k8s.io/kubernetes/cmd/kubectl
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
    need kind "$cluster_dir/tools/kind"
    need_kubectl
    need helm "$cluster_dir/tools/helm"
    ;;
  checks)
    need kubeconform "$cluster_dir/tools/kubeconform"
    need kube-score "$cluster_dir/tools/kube-score"
    need helm "$cluster_dir/tools/helm"
    ;;
  trim) trim_go_caches ;;
  *) die "unknown argument: $1" "tools.sh [cluster|checks|trim]" ;;
esac
