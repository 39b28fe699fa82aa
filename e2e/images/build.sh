#!/usr/bin/env bash
# Makes sure that the Docker engine has every image that the cluster needs. The label of an image has a hash of its
# sources, and an image with an unchanged hash is not built again.
#
#   build.sh           builds the missing images
#   build.sh product   builds only the project's own
#   build.sh services  builds only those of the services, on a closed machine
#   build.sh stores    builds only the stand-ins that run on this machine itself: the stores of the tests, the nginx of the
#                    benchmark
#   build.sh gateway   builds only those of the tests' Gateway, on a closed machine
#   build.sh trim      removes the images that later builds have replaced
#   build.sh list      prints the images to load into the cluster, one per line
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
# shellcheck source=services.sh
. "$images_dir/services.sh"

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

product() {
  take_turn product
  build_product
}

# The subshell gives back the turn of the stores before the rest, which takes minutes.
services() {
  take_turn services
  (stores)
  build_services
}

stores() {
  take_turn stores
  build_stores
}

gateway() {
  take_turn gateway
  build_gateway
}

build() {
  local image images=()
  if closed; then
    services
  else
    while IFS= read -r image; do images+=("$image"); done < <(stack_images)
    pull "${images[@]}"
  fi
  product
  remove_replaced
}

case "${1:-build}" in
  build) build ;;
  product) product ;;
  services) services ;;
  stores) stores ;;
  gateway) gateway ;;
  trim) remove_replaced ;;
  list) list ;;
  *) die "unknown argument: $1" "run it as: build.sh [product|services|stores|gateway|trim|list]" ;;
esac
