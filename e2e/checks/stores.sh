#!/usr/bin/env bash
# Provides the servers that the tests of the app and the worker run on this machine: a container engine, the images of
# the stores, and the program of the vector store.
#
#   e2e/checks/stores.sh                    makes what is missing
#   e2e/checks/stores.sh image <variable>   prints the image of a store, by the operator's variable for it
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source "$repo/e2e/images/names.sh"

store_image() {
  local image
  image=$(default_image "$1")
  if closed; then image=$(stand_in "$image"); fi
  printf '%s\n' "$image"
}

make_stores() {
  docker_ready
  if closed; then
    e2e/images/build.sh stores
  else
    pull "$(store_image POSTGRES_IMAGE)" "$(store_image CACHE_IMAGE)" "$(store_image RABBITMQ_IMAGE)" "$(store_image GATEWAY_IMAGE)"
  fi
  e2e/images/qdrant.sh >/dev/null
}

case "$#:${1:-}" in
  0:) make_stores ;;
  2:image) store_image "$2" ;;
  *) die "unknown arguments: $*" "run it as: stores.sh [image <variable>]" ;;
esac
