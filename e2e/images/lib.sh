#!/usr/bin/env bash
# Functions that the scripts for images share. Sourced after cluster/lib.sh; it is not a program.
# shellcheck disable=SC2154 # cache, repo, version and images_dir come from cluster/lib.sh and build.sh
set -euo pipefail

# The label with an image's content key: it is on the image itself, so a key never outlives its image.
key_label=dev.shortener.content-key

# key_of text...: prints one key made from several.
key_of() { printf '%s\n' "$@" | "${sha256[@]}" | cut -c 1-12; }

# has_image <image> <key>: true if the engine has the image, made from exactly this content.
has_image() {
  [[ $(docker image inspect --format "{{index .Config.Labels \"$key_label\"}}" "$1" 2>/dev/null) == "$2" ]]
}

# make_image <image> <key> <build context> docker-build-arguments...: builds the image with its key.
make_image() {
  local image=$1 key=$2 context=$3
  shift 3
  docker_build --quiet --tag "$image" --label "$key_label=$key" "$@" "$context"
}

# empty_context <name>: makes an empty folder for a build context in the cache, and prints it.
empty_context() {
  local context=$cache/contexts/$1
  rm -rf "$context"
  mkdir -p "$context"
  printf '%s\n' "$context"
}

# remove_replaced: removes the unnamed images that our builds have replaced.
remove_replaced() { docker image prune --force --filter "label=$key_label" >/dev/null; }
