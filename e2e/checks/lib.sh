# shellcheck shell=bash
# What the checks share, on top of the local cluster's library: the Rust target directory, packages, the operator.
# Sourced; moves to the root of the checkout.

source "$(dirname "${BASH_SOURCE[0]}")/../cluster/lib.sh"
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$cache/target}
cd "$repo" || exit 1

# Puts Debian packages on the machine, named as `command=package`, where the command is missing.
need_packages() {
  local pair missing=()
  for pair in "$@"; do
    command -v "${pair%%=*}" >/dev/null || missing+=("${pair#*=}")
  done
  ((${#missing[@]})) || return 0
  command -v apt-get >/dev/null || die "${missing[*]} missing, and no apt-get to install it" "install ${missing[*]} by hand"
  ((EUID == 0)) || die "${missing[*]} missing" "sudo apt-get install ${missing[*]}"
  say "installing ${missing[*]}"
  apt-get update -q >/dev/null || die "apt-get update failed" "check that the package mirror can be reached"
  DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends "${missing[@]}" >/dev/null \
    || die "apt-get could not install ${missing[*]}" "try it by hand and read what it says"
}

# Runs the operator that this checkout builds.
operator() {
  cargo run --quiet --release -p shortener-operator -- "$@"
}
