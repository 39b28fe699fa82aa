#!/usr/bin/env bash
# Shared by every script of the local cluster: source it, do not run it.
#
# Gives: repo, cache, say, die, step, content_key, gobuild and built (pinned Go tools), module_dir,
# docker_ready, closed, node_rootfs_image. Logs of all steps are in $cache/logs.
# shellcheck disable=SC2034 # the variables are read by the scripts that source this file

set -euo pipefail

cluster_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
repo=$(cd "$cluster_dir/../.." && pwd)
cache=${SHORTENER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/shortener-stack}
logs=$cache/logs
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' "$repo/Cargo.toml")
# Images that are built here have names that no registry serves: a missing one fails at once instead of being pulled.
local_images=localhost/shortenerstack
mkdir -p "$cache" "$logs"

# Which cluster is meant: `make up` takes these, the tests set their own, so that both run beside each other.
export CLUSTER_NAME=${CLUSTER_NAME:-shortener}
export GATEWAY_PORT=${GATEWAY_PORT:-8080}
node=$CLUSTER_NAME-control-plane
# Go and Rust are found where their installers put them, also from a shell that was not told.
export PATH=$cache/bin:$PATH:/usr/local/go/bin:$HOME/.cargo/bin:/usr/sbin:/sbin

export CGO_ENABLED=0 GOWORK=off GOFLAGS=-buildvcs=false
# A cache of their own keeps these large builds from filling the person's, and lets us put a ceiling on it.
export GOMODCACHE=$cache/go/mod GOCACHE=$cache/go/build

export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$cache/target}

# Cargo goes by file times, and to it our crates are the same in every checkout: it would take what another checkout
# built for this one's. What that left of our crates is removed; the dependencies stay.
claim_target() {
  local claim=$CARGO_TARGET_DIR/checkout profile
  if [[ -e $claim && $(<"$claim") != "$repo" ]]; then
    for profile in quick release; do
      if [[ -d $CARGO_TARGET_DIR/$(host_triple)/$profile ]]; then
        (cd "$repo" && cargo clean --quiet --profile "$profile" --workspace)
      fi
    done
  fi
  mkdir -p "$CARGO_TARGET_DIR"
  printf '%s' "$repo" >"$claim"
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
# The command runs in a subshell: what it exports is gone afterwards.
step() {
  local title=$1 begin=$SECONDS beat rc=0 pid log
  shift
  log=$logs/$(printf '%s' "$CLUSTER_NAME $title" | tr -cs 'A-Za-z0-9' '-').log
  say "==> $title"
  ("$@") >"$log" 2>&1 </dev/null &
  pid=$!
  beat=$((SECONDS + 30))
  while kill -0 "$pid" 2>/dev/null; do
    if ((SECONDS >= beat)); then
      say "    ... $((SECONDS - begin)) s: $(last_said "$log")"
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

# last_said log: what a command said last, without the times of the steps that it takes itself.
last_said() {
  tail -n 20 "$1" | tr -d '\r' | sed ':again; s/^    \.\.\. [0-9]* s: //; t again; /^    done in /d' | tail -n 1 | cut -c 1-120
}

# apt_install package...: installs those Debian packages that are missing.
apt_install() {
  local missing=() package
  for package in "$@"; do
    if [[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) != installed ]]; then missing+=("$package"); fi
  done
  if ((${#missing[@]} == 0)); then return; fi
  if ! command -v apt-get >/dev/null || ((EUID != 0)); then
    die "these packages are missing: ${missing[*]}" "install them with the package manager of this machine, or run this as root on Debian"
  fi
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "${missing[@]}"
}

# The description of this machine's own Debian mirrors, for mmdebstrap.
debian_sources() {
  local file
  for file in /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list; do
    if [[ -s $file ]]; then
      printf '%s\n' "$file"
      return
    fi
  done
  die "this machine has no list of Debian packages" "without public images Debian 12 is needed to build them"
}

# Prints the address of the mirror that this machine's Debian packages come from.
debian_mirror() {
  sed -n -e 's/^URIs:[[:space:]]*\([^[:space:]]*\).*/\1/p' -e 's/^deb \(\[[^]]*\] \)\{0,1\}\([^[:space:]]*\).*/\2/p' "$(debian_sources)" |
    head -n 1
}

# True where this machine may not raise resource limits (a container, a small virtual machine): bit 24 of CapBnd.
lacks_sys_resource() {
  local bounding
  bounding=$(sed -n 's/^CapBnd:[[:space:]]*//p' /proc/self/status)
  ((((16#$bounding >> 24) & 1) == 0))
}

# True when engine.sh had to start the engine on such a machine; the node needs the same care then.
restricted() { [[ $(docker info --format '{{.DefaultRuntime}}') == without-sys-resource ]]; }

# content_key path...: 12 hex digits over names and contents of files and folders (paths below the checkout).
content_key() {
  (
    cd "$repo"
    realpath -s --relative-to=. "$@" | while IFS= read -r path; do
      find -L "$path" -type f -print0 || exit 1
    done | sort -z | xargs -0 sha256sum | sha256sum | cut -c 1-12
  )
}

# built <folder of a tool's go.mod> [package]: where gobuild puts its programs.
built() {
  local key
  key=$( (content_key "$1"; go env GOVERSION GOOS GOARCH; printf '%s' "${2:-}") | sha256sum | cut -c 1-12)
  printf '%s/tools/%s-%s\n' "$cache" "$(basename "$1")${2:+-$(basename "$2")}" "$key"
}

# The linker leaves debug information out (-s -w), so the compiler has no need to write any: a sixth of its work.
go_compiler_flags=all=-dwarf=false

# go_compile command args...: runs a command that compiles Go code. The compiler's processes are short, so their garbage is
# not worth collecting before one of them has grown large.
go_compile() { GOGC=off GOMEMLIMIT=2GiB "$@"; }

# gobuild <folder of a tool's go.mod> [package]: builds that package, or every package on its `tool` lines, once per
# content of the folder. A file `flags` beside go.mod holds further arguments of `go build`, one per line.
gobuild() {
  local module=$1 package=${2:-tool} out flags=()
  out=$(built "$@")
  exec 9>"$cache/go.lock"
  flock 9 # two runs on one machine build one after the other, and the second finds the result
  if [[ ! -d $out ]]; then
    if [[ -f $module/flags ]]; then mapfile -t flags <"$module/flags"; fi
    rm -rf "$out.part"
    mkdir -p "$out.part"
    (
      cd "$module"
      go_compile go build -trimpath "-gcflags=$go_compiler_flags" "${flags[@]}" -o "$out.part/" "$package"
    )
    rm -rf "${out%-*}"-???????????? # what earlier pins of this tool left
    mv "$out.part" "$out"
  fi
  exec 9>&-
}

# module_dir <folder of a go.mod> <module path>: the unpacked source of that module, downloaded when absent.
module_dir() {
  (cd "$1" && go mod download "$2" && go list -m -f '{{.Dir}}' "$2")
}

# docker_ready: a Docker engine answers, started (and installed) when there is none.
docker_ready() { "$cluster_dir/engine.sh"; }

# Engines before 23 have no BuildKit of their own, while a newer client insists on it.
docker_build() {
  local major
  major=$(docker version --format '{{.Server.Version}}' | cut -d . -f 1)
  if ((major < 23)); then export DOCKER_BUILDKIT=0; fi
  docker build "$@"
}

# closed: true when the public images cannot be pulled, or the public node image would not run here, so that
# everything is built. Decided once; child processes inherit the answer. SHORTENER_CLOSED=yes|no decides by hand.
closed() {
  if [[ -z ${SHORTENER_CLOSED:-} ]]; then
    if restricted || ! pulls hello-world:latest || ! pulls registry.k8s.io/pause:3.10; then
      SHORTENER_CLOSED=yes
    else
      SHORTENER_CLOSED=no
    fi
    export SHORTENER_CLOSED
  fi
  [[ $SHORTENER_CLOSED == yes ]]
}

pulls() { docker image inspect "$1" >/dev/null 2>&1 || timeout 20 docker pull --quiet "$1" >/dev/null 2>&1; }

# The root file system that the node image and Calico's image are made from; node.sh builds it.
node_rootfs_image() { printf 'localhost/node-rootfs:%s\n' "$(content_key "$cluster_dir/rootfs.sh")"; }
