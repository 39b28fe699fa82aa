#!/usr/bin/env bash
# Removes the cluster $CLUSTER_NAME. Tools, images and build output stay, so that the next cluster starts quickly.
# shellcheck source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

if ! engine_answers || ! command -v kind >/dev/null; then
  say "==> There is no cluster $CLUSTER_NAME to remove: no Docker engine answers, or kind is not installed"
  exit 0
fi
remedy="remove its container by hand: docker rm --force --volumes $node" \
  step "Remove the cluster $CLUSTER_NAME" kind delete cluster --name "$CLUSTER_NAME"
rm -rf "$cache/clusters/$CLUSTER_NAME"
