#!/usr/bin/env bash
# Checks everything that would otherwise stop the run an hour later: the requirements of a local cluster and of the checks.
# `preflight.sh all` checks those of the last steps of `make test-all` too.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

"$cluster_dir/preflight.sh"
[[ -z ${RUSTFLAGS:-} ]] || die "RUSTFLAGS is set" "unset it: it replaces the flags of .cargo/config.toml"

command -v go >/dev/null || die "Go is missing" "install Go 1.26 or later, which builds the tools of the checks: https://go.dev/doc/install"

packages=()
for program in git jq openssl shellcheck unzip; do
  command -v "$program" >/dev/null || packages+=("$program")
done
if ((${#packages[@]})); then step "Install ${packages[*]}" apt_install "${packages[@]}"; fi

if [[ $* == all ]]; then
  find_chromium
  compgen -G "$cache/tools/axe-core@*/axe.min.js" >/dev/null || command -v npm >/dev/null \
    || die "npm is missing" "install Node.js with npm, which fetches the checker of the console's pages"
  for port in 8080 809{1..5} 909{0..2}; do
    if port_in_use "$port"; then
      die "port $port of this machine is in use, and the steps of the console and of single sign-on need it" \
        "stop what listens there until the run has ended: make dev, or the cluster of make up (make down, or give it another GATEWAY_PORT)"
    fi
  done
fi

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
