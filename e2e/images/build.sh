#!/usr/bin/env bash
# Makes sure that the Docker engine has every image that the cluster needs. The label of an image has a hash of its
# sources, and an image with an unchanged hash is not built again.
#
#   build.sh         builds the missing images
#   build.sh stores  builds only the stand-ins that run on this machine itself: the stores of the tests, the nginx of the
#                    benchmark
#   build.sh list    prints the images to load into the cluster, one per line
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

# Two runs on one machine build one after the other, and the second finds the images of the first. On macOS, which
# has no flock, run only one at a time.
take_turn() {
  if command -v flock >/dev/null; then
    exec 7>"$cache/images.lock"
    flock 7
  fi
}

build() {
  local image images=()
  take_turn
  if closed; then
    # Downloads, linkers and packages leave a core idle by turns, so both compilers work side by side. What fails here fails
    # again in the step below, which reports it.
    make_service_parts >"$logs/service-parts.log" 2>&1 &
    # shellcheck disable=SC2064 # the process of now
    trap "kill $! 2>/dev/null || true" EXIT
    build_product
    step "Build the programs and packages of the services' images" make_service_parts
    build_services
  else
    while IFS= read -r image; do images+=("$image"); done < <(stack_images)
    pull "${images[@]}"
    build_product
  fi
  remove_replaced
}

stores() {
  take_turn
  build_stores
}

case "${1:-build}" in
  build) build ;;
  stores) stores ;;
  list) list ;;
  *) die "unknown argument: $1" "run it as: build.sh [stores|list]" ;;
esac
