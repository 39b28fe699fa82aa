#!/usr/bin/env bash
# Provides the servers that the tests of the app and the worker run on this machine: a container engine, the images of
# the stores, and the program of the vector store.
#
#   e2e/checks/stores.sh                    makes what is missing
#   e2e/checks/stores.sh image <variable>   prints the image of a store, by the operator's variable for it, or by
#                                           POOLER_IMAGE, which is no image of the operator
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source "$repo/e2e/images/names.sh"

store_image() {
  local image
  case $1 in
    POOLER_IMAGE)
      # The stand-ins share their packages, and PgBouncer is one of them.
      if closed; then
        store_image POSTGRES_IMAGE
      else
        image=$(default_image POSTGRES_IMAGE)
        printf '%s\n' "$local_images/pgbouncer:${image##*:}"
      fi
      ;;
    *)
      image=$(default_image "$1")
      if closed; then image=$(stand_in "$image"); fi
      printf '%s\n' "$image"
      ;;
  esac
}

make_pooler() {
  local image
  image=$(store_image POOLER_IMAGE)
  if docker image inspect "$image" >/dev/null 2>&1; then return; fi
  remedy="check that this machine reaches apt.postgresql.org" \
    step "Add PgBouncer to the image of PostgreSQL" \
    docker_build --quiet --tag "$image" --build-arg "BASE=$(store_image POSTGRES_IMAGE)" e2e/images/pgbouncer
}

make_stores() {
  docker_ready
  if closed; then
    e2e/images/build.sh stores
  else
    pull "$(store_image POSTGRES_IMAGE)" "$(store_image CACHE_IMAGE)" "$(store_image RABBITMQ_IMAGE)" "$(store_image GATEWAY_IMAGE)"
    make_pooler
  fi
  e2e/closed/qdrant.sh >/dev/null
}

case "$#:${1:-}" in
  0:) make_stores ;;
  2:image) store_image "$2" ;;
  *) die "unknown arguments: $*" "run it as: stores.sh [image <variable>]" ;;
esac
