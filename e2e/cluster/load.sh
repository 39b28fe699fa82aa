#!/usr/bin/env bash
# load.sh image...: loads those images from the engine into each node that does not have them in this version.
# shellcheck source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# in_node <node> arguments of `ctr images`...
in_node() { docker exec --interactive "$1" ctr --namespace k8s.io images "${@:2}"; }

# The node lists an image by its name and by `sha256:<ID>`; for the same image both have the same digest.
loaded() {
  local image=$1 id name
  id=$(docker image inspect --format '{{.Id}}' "$image")
  name=$(registry_of "$image")/$(repository_of "$image")
  awk -v name="$name" -v id="$id" '
    $1 == name { byName = $3 }
    $1 == id { byId = $3 }
    END { exit !(byName != "" && (byName == byId || byName == id)) }' <<<"$present"
}

# Prints the snapshotter of the node's containerd, which depends on the file system. In each version of the
# configuration its setting is in the section with the name of the part that serves Kubernetes.
snapshotter() {
  docker exec "$node" containerd config dump | awk '
    /^ *\[/ { inside = /io\.containerd\.cri\.v1\.images.?\]/ || /io\.containerd\.grpc\.v1\.cri.?\.containerd\]/ }
    inside && $1 == "snapshotter" { gsub(/[^a-z-]/, "", $3); kind = $3; inside = 0 }
    END { if (kind == "") exit 1; print kind }' || die "containerd's configuration in $node names no snapshotter" \
    "look for it in: docker exec $node containerd config dump"
}

# load <node> image... An engine may have only its own platform of an image for several, so the import must not require the
# others.
load() {
  local name=$1 kind
  shift
  kind=$(snapshotter)
  docker save "$@" | in_node "$name" import --snapshotter "$kind" -
}

# complete <node> image...
complete() {
  local name=$1 image present missing=()
  shift
  present=$(in_node "$name" list 2>/dev/null)
  for image in "$@"; do
    if ! loaded "$image"; then missing+=("$image"); fi
  done
  if ((${#missing[@]} > 0)); then
    remedy="check the free space of the node with 'docker exec $name df -h /var', or run 'make down' and 'make up' again" \
      step "Load ${#missing[@]} of $# images into $name" load "$name" "${missing[@]}"
  else
    say "==> All $# images are in $name"
  fi
}

for name in $(nodes); do complete "$name" "$@"; done
