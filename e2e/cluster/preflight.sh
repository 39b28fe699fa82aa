#!/usr/bin/env bash
# Reports the requirements that this machine does not meet, with a remedy, before any long step begins.
# shellcheck source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

disk_gib=20
memory_gib=6

on_debian_as_root() { command -v apt-get >/dev/null && ((EUID == 0)); }

check_system() {
  case $(host_platform) in
    linux-amd64 | linux-arm64 | darwin-amd64 | darwin-arm64) ;;
    *) die "this machine is $(host_platform); these scripts run on Linux and macOS, on amd64 and arm64" \
      "on Windows, run them in WSL2; elsewhere, create a cluster with kind and kind-config.yaml yourself" ;;
  esac
}

check_curl() {
  if command -v curl >/dev/null; then return; fi
  if on_debian_as_root; then
    remedy="check that this machine's apt sources work: apt-get update" \
      step "Install curl" apt_install curl ca-certificates
  else
    die "curl is missing" "install curl with this machine's package manager (apt-get, dnf, pacman or brew)"
  fi
}

# Building everything from packages needs their manager, and compilers.
check_closed() {
  on_debian_as_root || die "all images are to be built from Debian's packages ($why_closed), but this is not root on Debian" \
    "run this as root on Debian, or set SHORTENER_CLOSED=no to pull public images (from a mirror with SHORTENER_MIRROR=host:port)"
  need_program go "install Go 1.26 or later: https://go.dev/doc/install"
}

# If this machine compiles the programs, it links them statically, which needs the static C library.
check_compiler() {
  need_program cargo "install Rust with rustup: https://rustup.rs"
  if ! command -v cc >/dev/null && on_debian_as_root; then
    remedy="check that this machine's apt sources work: apt-get update" \
      step "Install gcc and libc6-dev" apt_install gcc libc6-dev
  fi
  need_program cc "install a C compiler: Debian and Ubuntu build-essential, Fedora gcc, openSUSE gcc"
  links_statically || die "the static C library (libc.a) is missing, so the programs cannot be linked" \
    "install it: Debian and Ubuntu libc6-dev, Fedora glibc-static, openSUSE glibc-devel-static; or set SHORTENER_COMPILER=docker to compile in a container"
}

need_program() {
  if ! command -v "$1" >/dev/null; then die "$1 is missing" "$2"; fi
}

# check_disk <folder> <what it holds>
check_disk() {
  local folder=$1 free
  free=$(free_gib df -Pk "$folder")
  # Caches of an earlier run already are a part of the required space.
  if [[ ! -d $cache/tools ]] && ((free < disk_gib)); then
    die "the disk of $folder ($2) has $free GiB free, and the first run needs $disk_gib GiB" \
      "free some space; to keep the caches on a larger disk, set SHORTENER_CACHE to a folder there"
  fi
  if ((free < 4)); then die "the disk of $folder ($2) has $free GiB free, and every run needs 4 GiB" "free some space, for example with 'docker system prune'"; fi
}

# The engine's own folder is on this machine unless the engine is in a virtual machine: there create.sh checks it.
check_disks() {
  local root
  check_disk "$cache" "the caches"
  if root=$(docker info --format '{{.DockerRootDir}}' 2>/dev/null) && [[ -n $root && -d $root ]]; then
    check_disk "$root" "the Docker engine"
  fi
}

check_memory() {
  local total
  total=$(memory_gib)
  if [[ -n $total ]] && ((total < memory_gib)); then
    die "containers may use $total GiB of memory here, and a cluster and its builds need $memory_gib GiB" \
      "give containers more (Docker Desktop: Settings, Resources, Memory; WSL2: memory= in .wslconfig; Colima: colima start --memory 8), or use a larger machine"
  fi
}

check_port() {
  local port=$1 cluster=$2
  # The port may be in use by our own cluster.
  if [[ -n $(docker ps --quiet --filter "label=io.x-k8s.kind.cluster=$cluster" 2>/dev/null) ]]; then return; fi
  if port_in_use "$port"; then
    die "port $port of this machine is in use" \
      "stop what listens there (Linux: ss -ltnp 'sport = :$port'; macOS: lsof -iTCP:$port -sTCP:LISTEN), or set GATEWAY_PORT to a free port"
  fi
}

check_system
check_curl
if ! engine_answers; then need_startable_engine; fi
decide
if closed; then check_closed; fi
if compiles_here; then check_compiler; fi
check_disks
check_memory
check_port "$GATEWAY_PORT" "$CLUSTER_NAME"
