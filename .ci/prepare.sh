#!/usr/bin/env bash
# Makes a hosted Ubuntu runner ready for `make test` and for a release. It needs root: there the scripts themselves never
# become root, while on a closed Debian machine they run as root and install what they lack.
set -euo pipefail
((EUID == 0)) || { echo "error: packages are installed by root; run this with sudo" >&2; exit 1; }

# What the unit tests start servers of, what the checks use, and the other architecture's linker and emulator.
packages=(
  jq postgresql prometheus rabbitmq-server redis-server shellcheck
  gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user
)

# The packages' own servers would take ports and memory.
printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
chmod +x /usr/sbin/policy-rc.d
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "${packages[@]}"
rm /usr/sbin/policy-rc.d

# A cluster with its images and the build output need more than a runner has left beside what other projects use.
if [[ ${GITHUB_ACTIONS:-} == true ]]; then
  rm -rf /usr/local/lib/android /usr/share/dotnet /opt/ghc /opt/hostedtoolcache/CodeQL
fi
df -h /
