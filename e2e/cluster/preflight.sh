#!/usr/bin/env bash
# Says what this machine lacks, and what to do about it, before anything long begins.
# shellcheck source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

disk_gib=20
memory_gib=6

need_program() {
  if ! command -v "$1" >/dev/null; then die "$2 is missing" "$3"; fi
}

# Rust links with the C compiler; curl follows the first link. Debian's packages of both are small.
small_packages() {
  local packages=()
  if ! command -v cc >/dev/null; then packages+=(gcc libc6-dev); fi
  if ! command -v curl >/dev/null; then packages+=(curl ca-certificates); fi
  if ((${#packages[@]} > 0)); then step "Install ${packages[*]}" apt_install "${packages[@]}"; fi
}

free_gib() { df --output=avail --block-size=1G "$1" | tail -n 1 | tr -d ' '; }

check_disk() {
  local free
  free=$(free_gib "$cache")
  # The caches of an earlier run are part of what is needed.
  if [[ ! -d $cache/tools ]] && ((free < disk_gib)); then
    die "$free GiB free in $cache, the first run needs $disk_gib" \
      "free some space, or set SHORTENER_CACHE to a folder on a larger disk"
  fi
  if ((free < 4)); then die "only $free GiB free in $cache" "free some space; 'docker system prune' may help"; fi
}

check_memory() {
  local total
  total=$(awk '/^MemTotal:/ {print int($2 / 1048576)}' /proc/meminfo)
  if ((total < memory_gib)); then
    die "this machine has $total GiB of memory, a cluster and its builds need $memory_gib" "use a larger machine"
  fi
}

check_port() {
  local port=$1 cluster=$2
  # A cluster of ours that holds the port is what we want.
  if [[ -n $(docker ps --quiet --filter "label=io.x-k8s.kind.cluster=$cluster" 2>/dev/null) ]]; then return; fi
  if (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
    die "port $port of this machine is in use" "stop what listens there (ss -ltnp 'sport = :$port'), or set GATEWAY_PORT"
  fi
}

if [[ $(uname -s) != Linux ]]; then die "these scripts run on Linux" "use a Linux machine, or kind by hand with kind-config.yaml"; fi
small_packages
need_program go "Go" "install Go 1.26 or later: https://go.dev/doc/install"
need_program cargo "Rust" "install it with rustup: https://rustup.rs"
if ! docker info >/dev/null 2>&1 && ((EUID != 0)); then
  die "no Docker engine answers, and starting one needs root" \
    "start Docker (and join the group docker), set DOCKER_HOST, or run this as root"
fi
check_disk
check_memory
check_port "$GATEWAY_PORT" "$CLUSTER_NAME"
