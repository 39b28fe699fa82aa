#!/usr/bin/env bash
# Loads the images of the tests' object store and of its client into the cluster of $KUBECONFIG. A machine with a registry
# pulls them.
# shellcheck source=../lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
# shellcheck source=../../images/names.sh
. "$repo/e2e/images/names.sh"

if closed; then
  "$repo/e2e/images/build.sh" objects
  "$cluster_dir/load.sh" "$rclone_image" "$seaweedfs_image"
fi
