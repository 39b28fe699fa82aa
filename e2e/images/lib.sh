#!/usr/bin/env bash
# Shared by the scripts that build images: source it after cluster/lib.sh, do not run it.
# shellcheck disable=SC2154 # cache, repo, version and images_dir come from cluster/lib.sh and build.sh
set -euo pipefail

# Where an image's content key is kept: on the image itself, so that a key can never outlive it.
key_label=dev.shortener.content-key

# key_of text...: one key from several.
key_of() { printf '%s\n' "$@" | "${sha256[@]}" | cut -c 1-12; }

# has_image <image> <key>: the engine holds the image, made from exactly this content.
has_image() {
  [[ $(docker image inspect --format "{{index .Config.Labels \"$key_label\"}}" "$1" 2>/dev/null) == "$2" ]]
}

# make_image <image> <key> <build context> docker-build-arguments...: builds the image with its key.
make_image() {
  local image=$1 key=$2 context=$3
  shift 3
  docker_build --quiet --tag "$image" --label "$key_label=$key" "$@" "$context"
}

# empty_context <name>: a fresh folder for a build context in the cache; prints it.
empty_context() {
  local context=$cache/contexts/$1
  rm -rf "$context"
  mkdir -p "$context"
  printf '%s\n' "$context"
}

# remove_replaced: removes what our builds have left behind without a name.
remove_replaced() { docker image prune --force --filter "label=$key_label" >/dev/null; }
