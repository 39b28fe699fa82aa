#!/usr/bin/env bash
# Tests the registry on loopback: images that crane pushes come back byte for byte, also after a
# restart, and it ends on a signal.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source "$(dirname "${BASH_SOURCE[0]}")/registry.sh"

work=$(mktemp -d)
trap 'stop_registry; rm -rf "$work"' EXIT

# pulls_back <image>: the image in the registry must contain the same file.
pulls_back() {
  crane export "$1" - | tar --extract --to-stdout greeting | cmp - "$work/greeting" \
    || die "the registry serves $1 with another content than was pushed" "read $work/registry/log"
}

start_registry "$work/registry"
printf 'hello\n' >"$work/greeting"
tar --create --file "$work/layer.tar" --directory "$work" greeting
crane append --new_layer "$work/layer.tar" --new_tag "$registry_address/test/tiny:1"
digest=$(crane digest "$registry_address/test/tiny:1")
pulls_back "$registry_address/test/tiny@$digest"
if crane manifest "$registry_address/test/absent:1" >/dev/null 2>&1; then die "the registry serves an image that was never pushed" "read $work/registry/log"; fi

first=$registry_address
stop_registry
if curl --silent --output /dev/null "http://$first/v2/"; then die "the registry still answers after stop_registry" "see e2e/checks/registry.sh"; fi

start_registry "$work/registry"
pulls_back "$registry_address/test/tiny@$digest"

again=$registry_pid
start_registry "$work/second"
stop_registry "$again"
if crane manifest "$registry_address/test/tiny:1" >/dev/null 2>&1; then die "two registries share their data" "see start_registry in e2e/checks/registry.sh"; fi
curl --silent --fail --output /dev/null "http://$registry_address/v2/" || die "stopping one registry stopped the other" "see stop_registry in e2e/checks/registry.sh"
say "the registry serves what was pushed to it"
