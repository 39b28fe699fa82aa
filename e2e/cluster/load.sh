#!/usr/bin/env bash
# load.sh image...: brings images from the engine into the node, only those that are not there in this version.
# shellcheck source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

in_node() { docker exec --interactive "$node" ctr --namespace k8s.io images "$@"; }

# The node knows an image by its name and by `sha256:<ID>`; both lead to the same digest when it is the same image.
loaded() {
  local image=$1 id name
  id=$(docker image inspect --format '{{.Id}}' "$image")
  case $image in
    *.*/* | localhost/*) name=$image ;;
    *) name=docker.io/$image ;;
  esac
  awk -v name="$name" -v id="$id" '
    $1 == name { byName = $3 }
    $1 == id { byId = $3 }
    END { exit !(byName != "" && (byName == byId || byName == id)) }' <<<"$present"
}

load() { docker save "$@" | in_node import --snapshotter overlayfs -; }

present=$(in_node list 2>/dev/null)
missing=()
for image in "$@"; do
  if ! loaded "$image"; then missing+=("$image"); fi
done
if ((${#missing[@]} > 0)); then
  step "Load ${#missing[@]} of $# images into the cluster" load "${missing[@]}"
else
  say "==> All $# images are in the cluster"
fi
