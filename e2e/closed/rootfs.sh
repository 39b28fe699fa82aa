#!/usr/bin/env bash
# Builds the root file system of the node image and of Calico's image from Debian packages. Its tag is a hash of this
# file, so a changed list gives a new image.
# shellcheck source=../cluster/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../cluster/lib.sh"

suite=bookworm

# The packages of kind's base image, Debian's runc and CNI plugins, and ipset for Calico.
packages=(
  bash ca-certificates conntrack containernetworking-plugins curl e2fsprogs ethtool iproute2 ipset iptables jq kmod
  libseccomp2 mount nftables pigz procps runc socat systemd util-linux
)

build_rootfs() {
  local list
  apt_install mmdebstrap
  list=$(IFS=,; printf '%s' "${packages[*]}")
  import_debian "$(node_rootfs_image)" --variant=minbase --include="$list" \
    --dpkgopt='path-exclude=/usr/share/doc/*' \
    --dpkgopt='path-exclude=/usr/share/man/*' \
    --dpkgopt='path-exclude=/usr/share/locale/*' \
    "$suite" - "$(debian_sources)"
}

build_tools() {
  docker_build --tag "$(node_tools_image)" --build-arg "ROOTFS=$(node_rootfs_image)" "$closed_dir/node/tools"
}

has() { docker image inspect "$1" >/dev/null 2>&1; }

if ! has "$(node_rootfs_image)"; then
  remedy="packages come from the sources of this machine's apt; it must be Debian $suite" \
    step "Build the node's root file system from Debian packages" build_rootfs
fi
if ! has "$(node_tools_image)"; then
  step "Copy the programs that kube-proxy and Calico call out of the node's root file system" build_tools
fi
