#!/usr/bin/env bash
# Makes the images of a release from $out/bin, each for both architectures, as OCI layouts in $out/images/<program>.
# It needs no engine. The same binaries, commit and bundle of certificates give the same bytes.
#
# The last stage of the program's Dockerfile defines the files, the user and the entry point of its image. CA_BUNDLE
# names another bundle of certificate authorities than this machine's.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

ca_bundle=${CA_BUNDLE:-/etc/ssl/certs/ca-certificates.crt}
index_type=application/vnd.oci.image.index.v1+json
manifest_type=application/vnd.oci.image.manifest.v1+json
config_type=application/vnd.oci.image.config.v1+json
layer_type=application/vnd.oci.image.layer.v1.tar+gzip

dockerfile_of() {
  if [[ $1 == operator ]]; then echo operator/Dockerfile; else echo "workloads/$1/Dockerfile"; fi
}

# The description of an image in the list of a registry.
description_of() {
  case $1 in
    operator) echo "Runs link-shortening services on Kubernetes, one per ShortenerStack resource" ;;
    app) echo "Shortens links and redirects from them: the app of a ShortenerStack" ;;
    worker) echo "Does the background jobs of a ShortenerStack" ;;
  esac
}

# read_dockerfile <file>: sets files (the paths in the image), user and entrypoint. An image of a release contains
# only files, so any other instruction in the last stage is an error.
read_dockerfile() {
  local line base='' unknown=''
  files=() user='' entrypoint=''
  while IFS= read -r line; do
    case $line in
      '' | '#'*) ;;
      FROM\ *) base=${line#FROM } files=() user='' entrypoint='' unknown='' ;;
      COPY\ *) files+=("${line##* }") ;;
      USER\ *) user=${line#USER } ;;
      ENTRYPOINT\ *) entrypoint=${line#ENTRYPOINT } ;;
      *) unknown=$line ;;
    esac
  done <"$1"
  [[ $base == scratch ]] || die "the last stage of $1 begins FROM $base" "write FROM scratch: an image has one program"
  [[ -z $unknown ]] || die "images.sh does not know this instruction of $1: $unknown" "add it to read_dockerfile in .ci/release/images.sh"
  [[ -n $user && -n $entrypoint ]] || die "$1 lacks USER or ENTRYPOINT" "add it: pods run without root and without a command"
  jq --exit-status 'type == "array"' <<<"$entrypoint" >/dev/null || die "ENTRYPOINT of $1 is not a list" 'write ENTRYPOINT ["/program"]'
}

# annotations <program>: the annotations of the image's configuration and manifests.
annotations() {
  jq --null-input --sort-keys --compact-output --arg title "shortener-$1" --arg description "$(description_of "$1")" \
    --arg version "$version" --arg revision "$(git rev-parse HEAD)" --arg source "$source_url" \
    --arg license "$(sed -n 's/^license = "\(.*\)"/\1/p' Cargo.toml)" --argjson time "$SOURCE_DATE_EPOCH" '
      {title: $title, description: $description, licenses: $license, version: $version, revision: $revision,
        source: $source, created: ($time | todate)}
      | with_entries(.key |= "org.opencontainers.image." + .)'
}

# keep_blob <layout> <file> <media type>: moves the file into the layout and prints its descriptor.
keep_blob() {
  local digest size
  digest=$(sha256 "$2")
  size=$(wc -c <"$2")
  mkdir -p "$1/blobs/sha256"
  mv "$2" "$1/blobs/sha256/$digest"
  jq --null-input --compact-output --arg type "$3" --arg digest "sha256:$digest" --argjson size "$size" \
    '{mediaType: $type, digest: $digest, size: $size}'
}

# make_layer <layout> <target> <path in the image>: prints a line with the descriptor of a layer with this file
# alone, so that images share the layers of common files, and after a tab the digest of its uncompressed content.
make_layer() {
  local layout=$1 target=$2 path=$3 source mode=0644 tree=$work/tree
  case $path in
    */ca-certificates.crt) source=$ca_bundle ;;
    *) source=$out/bin/$target/${path##*/} mode=0755 ;;
  esac
  [[ -s $source ]] || die "$source is missing" "run .ci/release/binaries.sh, or install the package ca-certificates"
  rm -rf "$tree"
  mkdir -p "$tree"
  install -D -m "$mode" "$source" "$tree$path"
  pack "$work/layer.tar" "$tree"
  gzip --no-name --stdout "$work/layer.tar" >"$work/layer.gz"
  printf '%s\tsha256:%s\n' "$(keep_blob "$layout" "$work/layer.gz" "$layer_type")" "$(sha256 "$work/layer.tar")"
}

# make_manifest <layout> <target> <annotations>: the image for one architecture; prints its descriptor.
make_manifest() {
  local layout=$1 target=$2 notes=$3 path config
  for path in "${files[@]}"; do make_layer "$layout" "$target" "$path"; done >"$work/layers"
  cut -f 2 "$work/layers" | jq --raw-input . | jq --slurp --compact-output --arg architecture "$(architecture_of "$target")" \
    --arg user "$user" --argjson entrypoint "$entrypoint" --argjson labels "$notes" '
      ($labels["org.opencontainers.image.created"]) as $created
      | {created: $created, architecture: $architecture, os: "linux",
        config: {User: $user, Entrypoint: $entrypoint, Labels: $labels},
        rootfs: {type: "layers", diff_ids: .},
        history: map({created: $created, created_by: ".ci/release/images.sh"})}' >"$work/config"
  config=$(keep_blob "$layout" "$work/config" "$config_type")
  cut -f 1 "$work/layers" | jq --slurp --compact-output --arg type "$manifest_type" --argjson config "$config" \
    --argjson notes "$notes" '{schemaVersion: 2, mediaType: $type, config: $config, layers: ., annotations: $notes}' >"$work/manifest"
  keep_blob "$layout" "$work/manifest" "$manifest_type" \
    | jq --compact-output --arg architecture "$(architecture_of "$target")" '.platform = {architecture: $architecture, os: "linux"}'
}

# make_image <program>: makes a layout with one index, which has a manifest for each architecture.
make_image() {
  local layout=$out/images/$1 notes target
  rm -rf "$layout"
  mkdir -p "$layout"
  read_dockerfile "$(dockerfile_of "$1")"
  notes=$(annotations "$1")
  for target in "${image_targets[@]}"; do make_manifest "$layout" "$target" "$notes"; done >"$work/manifests"
  jq --slurp --compact-output --arg type "$index_type" --argjson notes "$notes" \
    '{schemaVersion: 2, mediaType: $type, manifests: ., annotations: $notes}' "$work/manifests" >"$work/index"
  keep_blob "$layout" "$work/index" "$index_type" \
    | jq --slurp --compact-output --arg type "$index_type" '{schemaVersion: 2, mediaType: $type, manifests: .}' >"$layout/index.json"
  printf '{"imageLayoutVersion":"1.0.0"}' >"$layout/oci-layout"
  say "made $1 $version for ${#image_targets[@]} architectures: $(jq --raw-output '.manifests[0].digest' "$layout/index.json")"
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for program in "${programs[@]}"; do make_image "$program"; done
