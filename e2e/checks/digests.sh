#!/usr/bin/env bash
# Compares e2e/images/public.txt with the public images that the code names: the list must have each of them and no
# other. Reports the images without a digest, which are pulled by their tags alone. Also compares the released
# programs that laptops fetch with those that closed machines build, and the compiler of the development container.
#
#   digests.sh              compares
#   digests.sh --write      writes the list, keeping the digests of unchanged names
#   digests.sh --resolve    writes the list with the current digests of the registries, or of SHORTENER_MIRROR
set -euo pipefail
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
    printf '%s\n' "$public_prometheus" "$public_contour" "$public_envoy"
  } | sort -u
}

listed() { awk '!/^#/ && NF { print $1 }' "$list" | sort; }

# Finds names with a public registry that no function above covers, in all files that are run or applied.
unknown_names() {
  git ls-files --cached --others --exclude-standard -- '*.sh' '*.yaml' '*Dockerfile' '*.rs' '*.tpl' \
    | grep -vE '/(snapshots|golden|fixtures|invalid)/|^docs/|^e2e/checks/digests.sh$' \
    | { xargs grep -ohE '\b(docker\.io|registry\.k8s\.io|quay\.io|gcr\.io)/[a-z0-9/._-]+:v?[0-9][A-Za-z0-9._-]*' || true; } \
    | sort -u | comm -23 - <(named)
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
}

# minor_of <module>: prints major and minor of its version in the module that closed machines build from.
minor_of() { sed -n "s|^\t$1 v\([0-9]*\.[0-9]*\)\..*|\1|p" "$closed_dir/modules/kubernetes/go.mod" | sed -n 1p; }

# Checks that every program has a line for every platform, with the version of closed machines, except for the patch.
compare_releases() {
  local line program module minor
  for line in kind=sigs.k8s.io/kind kubectl=k8s.io/kubernetes helm=helm.sh/helm/v4; do
    program=${line%%=*} module=${line#*=}
    minor=$(minor_of "$module")
    [[ $(awk -v p="$program" -v v="v$minor." '$1 == p && index($2, v) == 1 && ($4 == "published" || length($4) == 64)' \
      "$cluster_dir/tools/releases.txt" | wc -l) == 4 ]] \
      || die "releases.txt lacks $program v$minor, the version of e2e/closed/modules/kubernetes/go.mod, for one of the four platforms" \
        "change both files together"
  done
}

# Checks that the development container has the compiler's image, by its digest.
compare_container() {
  local image
  image=$(unset BUILDER_IMAGE && builder_image)
  image+=@$(digest_of "$image")
  grep -qxF "FROM $image" .devcontainer/Dockerfile \
    || die ".devcontainer/Dockerfile has no line FROM $image" "write it there"
}

compare() {
  local wrong without
  if ! diff <(named) <(listed); then
    die "$list and the code name different images (<: only the code, >: only the list)" "run e2e/checks/digests.sh --write"
  fi
  wrong=$(awk '!/^#/ && $2 != "-" && !($2 ~ /^sha256:[0-9a-f]+$/ && length($2) == 71)' "$list")
  [[ -z $wrong ]] || die "$list has lines that are not '<image> sha256:<64 hex digits>': $wrong" "run e2e/checks/digests.sh --resolve"
  wrong=$(unknown_names)
  [[ -z $wrong ]] || die "these public images are not in $list: $wrong" "name them in one of the functions of e2e/checks/digests.sh"
  without=$(awk '!/^#/ && $2 == "-" { print "  " $1 }' "$list")
  say "$(listed | wc -l | tr -d ' ') public images are listed$(if [[ -n $without ]]; then printf ', without a digest:\n%s' "$without"; fi)"
}

case "${1:-}" in
  '') compare_releases && compare_container && compare ;;
  --write) write && compare ;;
  --resolve) registry_programs && write resolve && compare ;;
  *) die "unknown argument: $1" "run it as: digests.sh [--write|--resolve]" ;;
esac
