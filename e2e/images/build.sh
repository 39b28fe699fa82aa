#!/usr/bin/env bash
# Makes sure that the Docker engine has every image that the cluster needs. The label of an image has a hash of its
# sources, and an image with an unchanged hash is not built again.
#
#   build.sh           builds the missing images
#   build.sh product   builds only the project's own
#   build.sh services  builds only those of the services, on a closed machine
#   build.sh entry     builds only those of the ingress controller and the network, on a closed machine
#   build.sh stores    builds only the stand-ins that run on this machine itself: the stores of the tests, the nginx of the
#                    benchmark
#   build.sh gateway   builds only those of the tests' Gateway, on a closed machine
#   build.sh objects   builds only those of the tests' object store and of its client, on a closed machine
#   build.sh cloudnative_pg
#                    builds only those of CloudNativePG and of its PostgreSQL, on a closed machine
#   build.sh scalers  builds only those of KEDA and metrics-server, on a closed machine
#   build.sh rabbitmq_operator
#                    builds only that of RabbitMQ's cluster operator, on a closed machine
#   build.sh trim      removes the images that later builds have replaced
#   build.sh list      prints the images to load into the cluster, one per line
#   build.sh early     makes sure that the engine has those of a stack with the profiles caching and queue, and prints them
#
# PROFILE=release compiles the product with link-time optimization, for published images.
# SHORTENER_COMPILER=host|docker selects this machine's cargo or a container, see cluster/lib.sh.
set -euo pipefail

images_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=../cluster/lib.sh
. "$images_dir/../cluster/lib.sh"
# shellcheck source=lib.sh
. "$images_dir/lib.sh"
# shellcheck source=product.sh
. "$images_dir/product.sh"
# shellcheck source=../closed/services.sh
. "$closed_dir/services.sh"

# The names without those that only the profiles observability and vector, and the tests, need.
early_images() {
  product_images
  if closed; then
    printf '%s\n' "$postgres_image" "$nginx_image" "$valkey_image" "$rabbitmq_image" "$controller_image" "$calico_image"
  else
    stack_images early
  fi
}

early() {
  local image images=()
  if ! closed; then
    while IFS= read -r image; do images+=("$image"); done < <(stack_images early)
    pull "${images[@]}"
  fi
  part product
  early_images
}

list() {
  product_images
  if closed; then service_images; else stack_images; fi
}

# take_turn <part>: two runs on one machine build the same part one after the other, and the second finds the images of the
# first. On macOS, which has no flock, run only one at a time.
take_turn() {
  if command -v flock >/dev/null; then
    exec 7>"$cache/images-$1.lock"
    flock 7
  fi
}

# part <name>: builds one part.
part() {
  take_turn "$1"
  "build_$1"
}

# The subshells give back their turns before the rest, which takes minutes: a run that needs only those parts goes on.
services() {
  (part stores)
  (part entry)
  part services
}

build() {
  local image images=()
  if closed; then
    services
  else
    while IFS= read -r image; do images+=("$image"); done < <(stack_images)
    pull "${images[@]}"
  fi
  part product
  remove_replaced
}

case "${1:-build}" in
  build) build ;;
  services) services ;;
  early) early ;;
  product | entry | stores | gateway | objects | cloudnative_pg | scalers | rabbitmq_operator) part "$1" ;;
  trim) remove_replaced ;;
  list) list ;;
  *) die "unknown argument: $1" \
    "run it as: build.sh [product|services|entry|stores|gateway|objects|cloudnative_pg|scalers|rabbitmq_operator|trim|list|early]" ;;
esac
