#!/usr/bin/env bash
# Checks everything that would otherwise stop the run an hour later: the requirements of a
# local cluster and of the checks.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

"$cluster_dir/preflight.sh"
[[ -z ${RUSTFLAGS:-} ]] || die "RUSTFLAGS is set" "unset it: it replaces the flags of .cargo/config.toml"

command -v go >/dev/null || die "Go is missing" "install Go 1.26 or later, which builds the tools of the checks: https://go.dev/doc/install"

packages=()
command -v jq >/dev/null || packages+=(jq)
command -v shellcheck >/dev/null || packages+=(shellcheck)
command -v git >/dev/null || packages+=(git)
if ((${#packages[@]})); then step "Install ${packages[*]}" apt_install "${packages[@]}"; fi

# Build output of old dependencies accumulates; above this limit it is cheaper to start again.
ceiling_gib=20
used_gib=$(du -s --block-size=1G "$CARGO_TARGET_DIR" 2>/dev/null | cut -f 1)
if ((${used_gib:-0} >= ceiling_gib)); then
  say "removing the build output in $CARGO_TARGET_DIR: it has $used_gib GiB, and the limit is $ceiling_gib GiB"
  rm -rf "$CARGO_TARGET_DIR"
fi

rustc --version
cargo clippy --version
go version
printf '%d cores, %d GiB of memory free\n' "$(nproc)" "$(awk '/^MemAvailable:/ {print int($2 / 1048576)}' /proc/meminfo)"
