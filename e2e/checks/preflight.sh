#!/usr/bin/env bash
# Everything that would otherwise stop the run an hour later: the toolchains, disk, memory and the small Debian packages.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

[[ $(uname -s) == Linux ]] || die "this is not Linux" "run the tests on Linux: kind runs its node as a container with systemd"
command -v cargo >/dev/null || die "cargo is missing" "install Rust with rustup; rust-toolchain.toml names the version"
command -v go >/dev/null || die "go is missing" "install Go 1.26 or later: it builds kind, helm and more"
command -v cc >/dev/null || die "a C compiler is missing" "apt-get install build-essential"
[[ -z ${RUSTFLAGS:-} ]] || die "RUSTFLAGS is set" "unset it: it would replace the flags of .cargo/config.toml"

free_gib=$(($(df --output=avail -k "$cache" | tail -n 1) / 1024 / 1024))
((free_gib >= 20)) || die "only $free_gib GiB free under $cache" "make room: builds and images need 20"
memory_gib=$(($(sed -n 's/^MemTotal: *\([0-9]*\) kB/\1/p' /proc/meminfo) / 1024 / 1024))
((memory_gib >= 6)) || die "only $memory_gib GiB of memory" "use a machine with 6 GiB or more: the cluster and the build need them"

need_packages jq=jq shellcheck=shellcheck curl=curl

# Build output of old dependencies piles up; past the ceiling it is cheaper to start again.
ceiling_gib=20
if [[ -d $CARGO_TARGET_DIR ]]; then
  used_gib=$(($(du -sk "$CARGO_TARGET_DIR" | cut -f 1) / 1024 / 1024))
  if ((used_gib >= ceiling_gib)); then
    printf 'the build output holds %d GiB, more than %d: removing it\n' "$used_gib" "$ceiling_gib"
    rm -rf "$CARGO_TARGET_DIR"
  fi
fi

rustc --version
cargo clippy --version
go version
printf '%d cores, %d GiB of memory, %d GiB free\n' "$(nproc)" "$memory_gib" "$free_gib"
