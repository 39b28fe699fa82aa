#!/usr/bin/env bash
# Writes e2e/images/public.txt, the list of the public images that the code names, and reports those without a digest, which
# are pulled by their tags alone. e2e/tests/offline/images.rs compares the list with the code.
#
#   digests.sh --named      prints the images that the code names
#   digests.sh --write      writes the list, keeping the digests of unchanged names
#   digests.sh --resolve    writes the list with the current digests of the registries, or of SHORTENER_MIRROR
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck disable=SC2120 # the registry itself is not used here, only its tools
source e2e/checks/registry.sh
source e2e/images/names.sh

list=e2e/images/public.txt

named() {
  {
    default_images | cut -d ' ' -f 2
    controller_image
    (unset NODE_IMAGE && node_image)
    (unset BUILDER_IMAGE && builder_image)
    printf '%s\n' "$public_prometheus" "$public_contour" "$public_envoy" "$public_seaweedfs"
  } | sort -u
}

header() { sed '/^#/!d' "$list"; }

# write [resolve]
write() {
  local how=${1:-} image digest new
  new=$(
    header
    while IFS= read -r image; do
      digest=$(digest_of "$image")
      if [[ $how == resolve ]]; then
        digest=$(crane digest "$(public_list=/dev/null source_of "$image")") || die "the registry gives no digest for $image" "read its answer above"
      fi
      printf '%-55s %s\n' "$image" "${digest:--}"
    done < <(named)
  )
  printf '%s\n' "$new" >"$list"
  awk '!/^#/ && $2 == "-" { print "without a digest: " $1 }' "$list" >&2
}

case "${1:-}" in
  --named) named ;;
  --write) write ;;
  --resolve) registry_programs && write resolve ;;
  *) die "unknown argument: ${1:-none}" "run it as: digests.sh --named|--write|--resolve" ;;
esac
