#!/usr/bin/env bash
# Checks that the scripts of `make up` run on a laptop, with bash 3.2 and the tools that Linux and macOS have in
# common. It runs `make up` from end to end, as on Linux and as on macOS, in a userland with little else (busybox,
# without the applets that macOS lacks), with stand-ins for Docker, kind, kubectl, helm and the service
# (portable/double). This proves that the scripts run, not that a cluster does.
#
# The shell is /bin/bash, which is bash 3.2 on macOS, or the one that OLD_BASH names. The scripts are also searched for
# constructs that bash 3.2 does not have.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# The scripts that are sourced and run on every machine. On a laptop services.sh is only
# parsed, because build.sh sources it.
scripts=(
  e2e/cluster/{lib,host,closed,public,releases,preflight,engine,tools,create,load,chart,sample,show,forward,up,down}.sh
  e2e/cluster/addons/install.sh e2e/images/{build,lib,product}.sh
)
read_only=(e2e/cluster/go.sh e2e/closed/services.sh)

# Constructs that bash 3.2 and BSD tools lack, and the lines that may use them because only a
# closed Linux machine runs them.
newer_bash='mapfile|readarray|declare -[Agn]|local -[An]|exec \{[a-z]+\}|&>>|\|&|coproc|wait -n|BASHPID|EPOCHSECONDS|\[\[ -v |%\([^)]*\)T|\$\{[A-Za-z_]+(,|\^)|@[QEPAa]\}'
gnu_tools='realpath|readlink -f|--block-size|--output=avail|--no-run-if-empty|xargs -r|sort -z|sed -i|\bstat |\bdate |(^|[^-])\btimeout [0-9]|\bflock\b|\bsetsid\b|\bnproc\b|grep -[a-zA-Z]*P|--no-preserve|install -D|\btac\b|sed .*\\t'
exceptions='engine.sh:.*setsid dockerd|build.sh:.*flock|tools.sh:.*flock "\$cache/go.lock"|create.sh:.*/proc/sys|closed.sh:.*exec \{number\}'

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

lint() {
  local found
  found=$(grep -nE "$newer_bash|$gnu_tools" "${scripts[@]}" Makefile | grep -vE "^[^:]+:[0-9]+: *#|$exceptions" || true)
  [[ -z $found ]] || die "bash 3.2 or BSD tools do not have what these lines use: $found" "write them without it"
}

# userland <folder>: busybox without the applets that macOS lacks, and the few programs that a laptop has.
userland() {
  local applet folder=$1
  mkdir -p "$folder"
  for applet in $(busybox --list); do ln -s "$(command -v busybox)" "$folder/$applet"; done
  for applet in realpath readlink flock timeout setsid nproc stat date seq tac sha256sum uname wget curl; do rm -f "$folder/$applet"; done
  ln -s "$shell" "$folder/bash"
  ln -s "$(command -v shasum)" "$(command -v make)" "$folder"
  for applet in docker curl uname; do ln -s "$repo/e2e/checks/portable/double" "$folder/$applet"; done
}

# pins <platform>: releases of kind, kubectl and helm, and of the chart, as files of this machine; all are the stand-in.
pins() {
  local platform=$1 files=$work/releases program sum
  rm -rf "$files"
  mkdir -p "$files/$platform"
  for program in kind kubectl helm; do cp e2e/checks/portable/double "$files/$platform/$program"; done
  tar -czf "$files/helm.tgz" -C "$files" "$platform/helm"
  printf 'chart\n' >"$files/ingress-nginx"
  for program in "$platform/kind" "$platform/kubectl" helm.tgz ingress-nginx; do
    sum=$(sha256sum "$files/$program" | cut -c 1-64)
    program=${program##*/}
    printf '%s v9.9 %s %s\n' "${program%.tgz}" "$platform" "$sum"
  done
  printf 'url kind file://%s/{platform}/kind\nurl kubectl file://%s/{platform}/kubectl\nurl helm file://%s/helm.tgz\nurl ingress-nginx file://%s/ingress-nginx\n' \
    "$files" "$files" "$files" "$files"
}

# laptop <system> <machine> [VAR=value...] command...: runs the command there, with an empty environment and home.
laptop() {
  local system=$1 machine=$2
  shift 2
  env -i HOME="$work/home" PATH="$work/userland" DOUBLES="$work/doubles" REAL_CURL="$(command -v curl)" SYSTEM="$system" \
    MACHINE="$machine" GATEWAY_PORT=18181 CLUSTER_NAME=portable SHORTENER_RELEASES="$work/pins" SHORTENER_PULL_PAUSE=0 "$@"
}

fresh() {
  rm -rf "${work:?}/home" "$work/doubles"
  mkdir -p "$work/home" "$work/doubles"
  : >"$work/doubles/images"
}

called() { grep -qE -- "$1" "$work/doubles/calls"; }

# says <text> <what>: the output of the last run must contain the text.
says() { grep -qF -- "$1" "$work/out" || die "the output of $2 lacks '$1': $(cat "$work/out")" "run it by hand"; }

# comes_up <system> <machine>: runs make up from nothing, and once more on the result.
comes_up() {
  local platform
  platform=$(printf '%s' "$1" | tr '[:upper:]' '[:lower:]')-${2/x86_64/amd64}
  pins "$platform" >"$work/pins"
  fresh
  laptop "$1" "$2" make up >"$work/out" 2>&1 || die "make up fails as on $1: $(tail -n 20 "$work/out")" "run it by hand"
  says 'ShortenerStack demo is ready' "make up on $1"
  says 'Public images are pulled' "make up on $1"
  called '^docker pull kindest/node@sha256:' || die "the node image is not pulled by its digest" "see source_of in public.sh"
  called '^docker build .*--build-arg RUST=rust:' || die "the programs are not compiled in a container" "see compile in product.sh"
  called 'import --snapshotter native' || die "images are not loaded with the node's snapshotter" "see load.sh"
  called '^kind create cluster .*--image kindest/node:v' || die "kind create cluster does not name the node image" "see create.sh"
  laptop "$1" "$2" make up >"$work/out" 2>&1 || die "a second make up fails as on $1: $(tail -n 20 "$work/out")" "run it by hand"
  laptop "$1" "$2" make help >"$work/out" 2>&1
  says 'make up             Start a local cluster' "make help on $1"
  laptop "$1" "$2" make down >"$work/out" 2>&1
  called '^kind delete cluster' || die "make down does not remove the cluster" "see down.sh"
}

# refuses <text> VAR=value...: make up must fail with the text, and build nothing that a laptop should not build.
refuses() {
  local text=$1
  shift
  fresh
  if laptop Darwin arm64 "$@" make up >"$work/out" 2>&1; then die "make up with $* succeeded instead of failing with: $text" "see preflight.sh"; fi
  says "$text" "make up with $*"
  says 'what to do: ' "make up with $*"
  if called '^docker build'; then die "make up with $* built an image after: $text" "see up.sh"; fi
}

# mirrored: pulls go to the mirror under the same repository names, and the node is configured to use it.
mirrored() {
  local mirror=mirror.example:5000 image
  fresh
  laptop Linux x86_64 SHORTENER_MIRROR=$mirror make up >"$work/out" 2>&1 || die "make up fails with a mirror: $(cat "$work/out")" "run it by hand"
  says "Public images are pulled from the mirror $mirror" "make up with a mirror"
  called "^docker pull $mirror/kindest/node@sha256:" || die "the node image is not pulled from the mirror" "see source_of in public.sh"
  image=$(default_images | sed -n 's/^POSTGRES_IMAGE //p')
  called "^docker tag $mirror/library/$image $image\$" || die "$image is not tagged with its public name" "see pull_as in public.sh"
  grep -qF "https://$mirror" "$work/doubles/hosts.toml" || die "the node's containerd is not configured with the mirror" "see tell_mirror in create.sh"
}

apt_install busybox-static perl
shell=${OLD_BASH:-/bin/bash}
lint
for script in "${scripts[@]}" "${read_only[@]}"; do "$shell" -n "$script"; done
userland "$work/userland"
comes_up Linux x86_64
comes_up Darwin arm64
refuses 'containers may use 2 GiB of memory' MEMORY=2147483648
refuses 'gave up after attempt 6' PULL_ERROR='toomanyrequests: You have reached your pull rate limit.'
refuses 'gave up after attempt 1' PULL_ERROR='denied: requested access to the resource is denied'
refuses "SHORTENER_CLOSED=yes" PULL_ERROR='dial tcp: i/o timeout'
refuses 'this is not root on Debian' SHORTENER_CLOSED=yes
sed 's/[0-9a-f]\{8\}$/00000000/' "$work/pins" >"$work/wrong-pins"
refuses 'has the SHA-256 sum' SHORTENER_RELEASES="$work/wrong-pins"
pins linux-amd64 >"$work/pins"
mirrored
say "make up runs with $("$shell" --version | sed -n 1p) and busybox, as on Linux and as on macOS"
