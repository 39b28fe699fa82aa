#!/usr/bin/env bash
# Prepares a hosted Ubuntu runner for `make test` and for a release, and therefore needs root. On a runner the
# scripts themselves never become root; on a closed Debian machine they run as root and install missing packages.
set -euo pipefail
((EUID == 0)) || { echo "error: only root may install packages: run this with sudo" >&2; exit 1; }

# Programs for the checks, and the linker and emulator of the other architecture.
packages=(
  jq prometheus shellcheck
  gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user
)

# Keeps the package of Prometheus from starting its server: only its tool promtool is used.
printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
chmod +x /usr/sbin/policy-rc.d
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "${packages[@]}"
rm /usr/sbin/policy-rc.d

# A cluster with its images and the build output needs more disk than a runner has free
# beside its preinstalled software.
if [[ ${GITHUB_ACTIONS:-} == true ]]; then
  rm -rf /usr/local/lib/android /usr/share/dotnet /opt/ghc /opt/hostedtoolcache/CodeQL
fi
df -h /
