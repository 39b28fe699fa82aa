#!/usr/bin/env bash
# Makes sure that kind, kubectl and helm exist. Those on the PATH are used if their version fits. Otherwise $cache/bin
# gets the pinned release (tools/releases.txt), or, on a closed machine, a program built from the pinned Go modules.
# `tools.sh checks` adds helm, kubeconform and kube-score, and `tools.sh helm` helm alone, always from their modules.
# shellcheck source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=releases.sh
. "$cluster_dir/releases.sh"

# Every upgrade adds to these caches, so they have limits. Everything of one version fits.
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

# need <program> <folder of the tool> [package]: builds it if it is missing, then links it. `title="..." need ...`
# names what is built if that is more than the program.
need() {
  local program=$1
  shift
  go_step "${title:-Build $program from its Go module}" "$@"
  link "$program" "$@"
}

# Prints the version of a program, such as 1.36 or 1.36.2.
version_of() {
  case $1 in
    kind) "$2" version | sed -n 's/^kind v\([0-9.]*\).*/\1/p' ;;
    kubectl) "$2" version --client | sed -n 's/^Client Version: v\([0-9.]*\).*/\1/p' ;;
    helm) "$2" version --short | sed -n 's/^v\([0-9.]*\).*/\1/p' ;;
  esac
}

# Prints the Kubernetes version of the node, such as 1.36 or 1.36.2.
node_version() {
  local image
  if closed; then
    sed -n 's/.*k8s.io\/kubernetes v\([0-9.]*\).*/\1/p' "$closed_dir/modules/kubernetes/go.mod" | sed -n 1p
  else
    image=$(node_image)
    image=${image%@*}
    printf '%s\n' "${image##*:v}"
  fi
}

# A client may differ from its server by one minor version.
kubectl_fits() { awk -v a="$1" -v b="$(node_version)" 'BEGIN {
  split(a, x, "."); split(b, y, "."); d = x[2] - y[2]; exit !(x[1] == y[1] && d >= -1 && d <= 1) }'; }

# fits <program> <file>: kind starts only node images that it knows; Helm 3 is untested.
fits() {
  local version
  version=$(version_of "$1" "$2" 2>/dev/null) && [[ -n $version ]] || return 1
  case $1 in
    kind) version_at_least "$version" "$(release kind version)" ;;
    kubectl) kubectl_fits "$version" ;;
    helm) version_at_least "$version" 4.0 ;;
  esac
}

# uses_own <program>: true if the user has it in a version that fits.
uses_own() {
  local found
  found=$(on_path "$1") && fits "$1" "$found" || return 1
  rm -f "$cache/bin/$1"
}

# fetch <program>: puts its release into the cache, and unpacks an archive.
fetch() {
  local program=$1 platform home file
  platform=$(host_platform)
  release "$program" version >/dev/null \
    || die "${releases##*/} has no release of $program for $platform" "install $program yourself and put it on the PATH"
  home=$cache/tools/$program-$(release "$program" version)-$platform
  file=$home/$program
  if [[ $program == helm ]]; then file=$home/helm.tar.gz; fi
  fetch_release "$program" "$file"
  if [[ $program == helm ]]; then tar -xzf "$file" -C "$home" "$platform/helm"; fi
  if [[ $program == helm ]]; then mv "$home/$platform/helm" "$home/helm"; fi
  chmod 0755 "$home/$program"
  ln -sfn "$home/$program" "$cache/bin/$program"
}

need_release() {
  local program=$1
  if uses_own "$program"; then return; fi
  if fits "$program" "$cache/bin/$program"; then return; fi
  remedy="check that this machine reaches the address above, or install $program yourself and put it on the PATH" \
    step "Fetch $program $(release "$program" version)" fetch "$program"
}

# need_of_node <program>: needs it from the build of all programs of a node image.
need_of_node() {
  title="Build Kubernetes, containerd, etcd, CoreDNS, kind and Helm from their Go modules (10 minutes the first time)" \
    need "$1" "$closed_dir/modules/kubernetes"
}

cluster_tools() {
  if closed; then
    need_of_node kind
    uses_own kubectl || need_of_node kubectl
    need_of_node helm
  else
    need_release kind
    need_release kubectl
    need_release helm
  fi
}

size_gib() { du -sk "$1" 2>/dev/null | awk '{ print int($1 / 1048576) }'; }

# Go keeps all compiled and downloaded files. The finished tools are elsewhere, so files over the limit can be deleted.
trim_go_caches() {
  local compiled downloaded
  closed || return 0
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
  cluster) cluster_tools ;;
  checks)
    need kubeconform "$cluster_dir/tools/kubeconform"
    need kube-score "$cluster_dir/tools/kube-score"
    need helm "$closed_dir/modules/kubernetes" "$helm_package" # the chart is checked without an engine
    ;;
  helm) need helm "$closed_dir/modules/kubernetes" "$helm_package" ;;
  trim) trim_go_caches ;;
  *) die "unknown argument: $1" "run it as: tools.sh [cluster|checks|helm|trim]" ;;
esac
