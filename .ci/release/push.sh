#!/usr/bin/env bash
# Pushes the output of images.sh and chart.sh to $PUSH_TO, and writes their names with digests to $out/pushed.txt,
# one per line. $out/subjects.txt has them and the files of the release as checksums, for the attestation of their
# origin. A published tag never changes: a tag that has other content already is refused.
#
# With REGISTRY_TOKEN and REGISTRY_USER it logs in to the registry first.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source e2e/checks/registry.sh
registry_programs
"$cluster_dir/tools.sh" helm

refuse() { die "$1 is published already, with another content" "release another version: the content of a published tag never changes"; }

image_of() { printf '%s/%s:%s\n' "$push_to" "$1" "$version"; }

digest_of() { jq --raw-output '.manifests[0].digest' "$out/images/$1/index.json"; }

# Runs before the first push, so that no release is published in part.
refuse_replacement() {
  local program chart published
  for program in "${programs[@]}"; do
    published=$(crane digest "$(image_of "$program")" 2>/dev/null) || continue
    [[ $published == "$(digest_of "$program")" ]] || refuse "$(image_of "$program")"
  done
  for chart in "${charts[@]}"; do
    crane digest "$(image_of "charts/$chart")" >/dev/null 2>&1 || continue
    mkdir "$work/$chart"
    helm pull "oci://$push_to/charts/$chart" --version "$version" --destination "$work/$chart" "${plain[@]}"
    cmp "$work/$chart"/*.tgz "$(package_of "$chart")" || refuse "$(image_of "charts/$chart")"
  done
}

# pushed <image>: records its name with its digest.
pushed() { printf '%s@%s\n' "$1" "$(crane digest "$1")" >>"$work/pushed"; }

# Helm and cosign read the same file of credentials.
log_in() {
  if [[ -z ${REGISTRY_TOKEN:-} ]]; then return; fi
  crane auth login "${push_to%%/*}" --username "${REGISTRY_USER:?}" --password-stdin <<<"$REGISTRY_TOKEN"
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
plain=()
# Addresses of private networks have no certificates; crane decides the same way.
if [[ $push_to =~ ^(127|10|192\.168|172\.(1[6-9]|2[0-9]|3[01]))\. ]]; then plain=(--plain-http); fi

log_in
refuse_replacement
for program in "${programs[@]}"; do
  crane push "$out/images/$program" "$(image_of "$program")" >/dev/null
  pushed "$(image_of "$program")"
done
for chart in "${charts[@]}"; do
  helm push "$(package_of "$chart")" "oci://$push_to/charts" "${plain[@]}"
  pushed "$(image_of "charts/$chart")"
done
mv "$work/pushed" "$out/pushed.txt"
{
  cat "$out/files/SHA256SUMS"
  sed -E 's/(.*):[^:]*@sha256:(.*)/\2  \1/' "$out/pushed.txt"
} >"$out/subjects.txt"
cat "$out/pushed.txt"
