#!/usr/bin/env bash
# Puts kind, kubectl and helm into $cache/bin: the pinned releases (tools/releases.txt), or, on a closed machine, programs
# built from the pinned Go modules.
# `tools.sh checks` adds helm, kubeconform and kube-score, `tools.sh helm` helm alone, and `tools.sh gojq` a jq that reads and
# writes YAML, always from their modules.
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
  ln -sfn "$(built "$@")/$program" "$cache/bin/$program"
}

# need <program> <folder of the tool> [package]: builds it if it is missing, then links it. `title="..." need ...`
# names what is built if that is more than the program.
need() {
  local program=$1
  shift
  go_step "${title:-Compile $program from its Go module}" "$@"
  link "$program" "$@"
}

# release_folder <program>: prints the folder of its release.
release_folder() { printf '%s\n' "$cache/tools/$1-$(release "$1" version)-$(host_platform)"; }

# fetch <program>: puts its release into the cache, and unpacks an archive.
fetch() {
  local program=$1 platform home file
  platform=$(host_platform)
  release "$program" version >/dev/null \
    || die "${releases##*/} has no release of $program for $platform" "add its line there, or set SHORTENER_RELEASES to a file that has it"
  home=$(release_folder "$program")
  file=$home/$program
  if [[ $program == helm ]]; then file=$home/helm.tar.gz; fi
  fetch_release "$program" "$file"
  if [[ $program == helm ]]; then
    tar -xzf "$file" -C "$home" "$platform/helm"
    mv "$home/$platform/helm" "$home/helm"
  fi
  chmod 0755 "$home/$program"
  ln -sfn "$home/$program" "$cache/bin/$program"
}

need_release() {
  local program=$1
  if [[ $cache/bin/$program -ef $(release_folder "$program")/$program ]]; then return; fi
  remedy="check that this machine reaches the address above, or set SHORTENER_RELEASES to a file with other addresses" \
    step "Fetch $program $(release "$program" version)" fetch "$program"
}

# need_of_node <program>: needs it from the build of all programs of a node image.
need_of_node() {
  title="Compile Kubernetes, containerd, etcd, CoreDNS, kind and Helm from their Go modules (10 minutes the first time)" \
    need "$1" "$closed_dir/modules/kubernetes"
}

cluster_tools() {
  if closed; then
    need_of_node kind
    need_of_node kubectl
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
  gojq) need gojq "$cluster_dir/tools/gojq" ;;
  trim) trim_go_caches ;;
  *) die "unknown argument: $1" "run it as: tools.sh [cluster|checks|helm|gojq|trim]" ;;
esac
