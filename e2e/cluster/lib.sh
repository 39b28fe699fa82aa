#!/usr/bin/env bash
# Functions and variables that every script of the local cluster sources. Logs of all steps are in $cache/logs.
#
# This file, host.sh, closed.sh, public.sh and the scripts of `make up` run on laptops: they use only bash 3.2 and the
# tools that Linux and macOS have in common (e2e/checks/portable.sh). go.sh and the scripts that build images from
# packages run only on closed machines, which are Debian.
# shellcheck disable=SC2034 # the variables are read by the scripts that source this file

set -euo pipefail

cluster_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
repo=$(cd "$cluster_dir/../.." && pwd)
closed_dir=$repo/e2e/closed
cache=${SHORTENER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/shortener-stack}
logs=$cache/logs
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' "$repo/Cargo.toml")
# No registry serves the names of images that are built here, so a missing one fails at once instead of being pulled.
local_images=localhost/shortenerstack
mkdir -p "$cache/bin" "$logs"

# The cluster: these are the defaults of `make up`, and the tests set their own, so that both run beside each other.
export CLUSTER_NAME=${CLUSTER_NAME:-shortener}
export GATEWAY_PORT=${GATEWAY_PORT:-8080}
# ipv4 or ipv6: the only address family of its pods and Services.
export IP_FAMILY=${IP_FAMILY:-ipv4}
# Nodes besides the one of the control plane, each in a zone of its own. Without any, that one runs the pods.
export WORKERS=${WORKERS:-0}
node=$CLUSTER_NAME-control-plane
# The folders of the installers of Go and Rust, in case the shell's PATH lacks them.
export PATH=$cache/bin:$PATH:/usr/local/go/bin:$HOME/.cargo/bin:/usr/sbin:/sbin

# Cargo's output, which the tests and the images share. A folder that the user has for all projects is left alone: the scripts
# delete from this one.
export CARGO_TARGET_DIR=$cache/target

# Removes the output of this project's crates if another checkout built it, and keeps that of the dependencies. Cargo
# compares file times and treats these crates as the same in every checkout, so it would use the other's output.
claim_target() {
  local claim=$CARGO_TARGET_DIR/checkout profile
  if [[ -e $claim && $(<"$claim") != "$repo" ]]; then
    for profile in quick release; do
      if [[ -d $CARGO_TARGET_DIR/$(host_triple)/$profile ]]; then
        # cargo does not read the target of its own configuration here.
        (cd "$repo" && cargo clean --quiet --profile "$profile" --target "$(host_triple)" --workspace)
      fi
    done
  fi
  mkdir -p "$CARGO_TARGET_DIR"
  printf '%s' "$repo" >"$claim"
}

# Prints the names of the cluster's nodes, which are those of their containers.
nodes() { kind get nodes --name "$CLUSTER_NAME" 2>/dev/null; }

# The credentials of the cluster alone, as `make up` leaves them.
cluster_kubeconfig=$cache/clusters/$CLUSTER_NAME/kubeconfig

# Leads kubectl to the cluster of an earlier `make up`, whatever context and namespace the user chooses.
use_context() {
  export KUBECONFIG=$cluster_kubeconfig
  [[ -s $KUBECONFIG ]] || die "there is no cluster $CLUSTER_NAME" "run 'make up'"
}

host_triple() { rustc -vV | sed -n 's/^host: //p'; }

say() { printf '%s\n' "$*" >&2; }

# die "what is wrong" "what to do about it"
die() {
  say "error: $1"
  if [[ -n ${2:-} ]]; then say "  what to do: $2"; fi
  exit 1
}

# step "Title" command args...: runs the command with its output in a log, prints title and duration, a sign of
# life every 30 s, and on failure the end of the log. `remedy="..." step ...` adds advice to a failure.
# The command runs in a subshell, so its exports are gone afterwards.
step() {
  local title=$1 begin=$SECONDS beat rc=0 pid log said
  shift
  log=$logs/$(printf '%s' "$CLUSTER_NAME $title" | tr -cs 'A-Za-z0-9' '-').log
  say "==> $title"
  ("$@") >"$log" 2>&1 </dev/null &
  pid=$!
  beat=$((SECONDS + 30))
  while kill -0 "$pid" 2>/dev/null; do
    if ((SECONDS >= beat)); then
      said=$(last_said "$log")
      say "    ... $((SECONDS - begin)) s: ${said:-$title}"
      beat=$((SECONDS + 30))
    fi
    sleep 0.2
  done
  wait "$pid" || rc=$?
  if ((rc != 0)); then
    say "    FAILED after $((SECONDS - begin)) s (exit code $rc). The end of $log:"
    tail -n 25 "$log" | sed 's/^/    | /' >&2
    if [[ -n ${remedy:-} ]]; then say "    what to do: $remedy"; fi
    exit "$rc"
  fi
  say "    done in $((SECONDS - begin)) s"
}

# last_said <log>: prints the last line of a command, without the times of its own steps. Prints nothing if one of these has
# just ended, because the title of what ended would stay in sight while the next one is silent.
last_said() {
  tail -n 20 "$1" | tr -d '\r' | awk '
    /^    done in / { last = ""; next }
    { while (sub(/^    \.\.\. [0-9]+ s: /, "")) {} }
    !/^ *$/ { last = $0 }
    END { print substr(last, 1, 120) }'
}

# content_key path...: prints a hash of 12 hex digits over names and contents of files and folders. Names are relative
# to the checkout, so that every checkout has the same keys.
content_key() {
  local path
  (
    cd "$repo"
    for path in "$@"; do
      find -L "${path#"$repo/"}" -type f || exit 1
    done | LC_ALL=C sort | tr '\n' '\0' | xargs -0 "${sha256[@]}" | "${sha256[@]}" | cut -c 1-12
  )
}

# docker_ready: makes sure that a Docker engine answers; starts it, and installs it if there is none.
docker_ready() { "$cluster_dir/engine.sh"; }

# need_startable_engine: fails with a remedy if no engine answers and engine.sh cannot start one either.
need_startable_engine() {
  if ((EUID == 0)) && [[ $(uname -s) == Linux ]]; then return; fi
  if [[ $(docker info 2>&1) == *"permission denied"* ]]; then
    die "the account $(id -un) may not use the Docker engine" "run: sudo usermod -aG docker $(id -un), then log in again"
  fi
  die "no Docker engine answers" \
    "start it (macOS, Windows: Docker Desktop, OrbStack or Colima; Linux: sudo systemctl start docker), or set DOCKER_HOST to its address, or install Docker: https://docs.docker.com/engine/install/"
}

# compiles_here: true if this machine's cargo compiles the programs, as on closed machines and in the tests. Otherwise a
# container does, and this machine needs neither Rust nor a C compiler. SHORTENER_COMPILER=host|docker overrides this.
compiles_here() {
  case "${SHORTENER_COMPILER:-}" in
    host) true ;;
    docker) false ;;
    '') closed ;;
    *) die "SHORTENER_COMPILER is '$SHORTENER_COMPILER'" "set it to host (cargo of this machine) or docker, or unset it" ;;
  esac
}

# links_statically: true if the C compiler finds the static C library.
links_statically() { [[ $(cc -print-file-name=libc.a 2>/dev/null) == /* ]]; }

# Builds without BuildKit on engines before 23, which lack it, because a newer client would require it.
docker_build() {
  local major
  major=$(docker version --format '{{.Server.Version}}' | cut -d . -f 1)
  if ((major < 23)); then export DOCKER_BUILDKIT=0; fi
  docker build "$@"
}

# Prints the image of the node's root file system, which rootfs.sh builds.
node_rootfs_image() { printf 'localhost/node-rootfs:%s\n' "$(content_key "$closed_dir/rootfs.sh")"; }

# Prints the image that kube-proxy's and Calico's are made from, which rootfs.sh builds as well.
node_tools_image() { printf 'localhost/node-tools:%s\n' "$(content_key "$closed_dir/rootfs.sh" "$closed_dir/node/tools")"; }

. "$cluster_dir/host.sh"
. "$cluster_dir/closed.sh"
. "$cluster_dir/public.sh"
. "$cluster_dir/go.sh"
