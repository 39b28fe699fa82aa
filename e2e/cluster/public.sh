# shellcheck shell=bash
# Public images: the list of those that a cluster needs, and pulling them with retries. Sourced by lib.sh.
#
# SHORTENER_MIRROR=host[:port] names a registry that serves them under the same repository names; after a pull they
# are tagged with their public names.
# shellcheck disable=SC2154 # repo, cache and cluster_dir come from lib.sh

# Every public image that the code names, with the digest to pull it by, if it is known.
public_list=$repo/e2e/images/public.txt
pull_attempts=6
pull_remedy="check that this machine reaches the registry; if the error is toomanyrequests, denied or unauthorized, run 'docker login';
                set SHORTENER_MIRROR=host:port to pull from a registry that serves the same images;
                on Debian as root, set SHORTENER_CLOSED=yes to build everything instead of pulling (20 to 30 minutes)"

# Prints the node image of a public cluster; the name of kind's image contains the version of its Kubernetes.
node_image() {
  printf '%s\n' "${NODE_IMAGE:-kindest/node:$(awk '$1 == "kubectl" { print $2; exit }' "$cluster_dir/tools/releases.txt")}"
}

# Prints the image for compiling the programs, with the compiler of rust-toolchain.toml.
builder_image() {
  local channel
  channel=$(sed -n 's/^channel = "\(.*\)"/\1/p' "$repo/rust-toolchain.toml")
  printf '%s\n' "${BUILDER_IMAGE:-rust:$channel-slim-bookworm}"
}

# default_images: prints each default image of the operator as `<variable> <image>`, from the table in its source.
default_images() {
  sed -n 's/.*"\([A-Z0-9_]*_IMAGE\)", "\([^"]*\)";$/\1 \2/p' "$repo/operator/src/cli/settings/images.rs"
}

# Prints the ingress controller's image, from the values of its chart.
controller_image() {
  awk '$1 == "registry:" { r = $2 } $1 == "image:" && NF == 2 { i = $2 } $1 == "tag:" { t = $2 } END { print r "/" i ":" t }' \
    "$cluster_dir/addons/ingress-nginx.yaml"
}

# stack_images [early]: prints the images of the sample stack, or those of its first profiles. The node pulls the images of
# other stacks.
stack_images() {
  local name image
  default_images | while read -r name image; do
    case $name in
      POSTGRES_IMAGE | CACHE_IMAGE | RABBITMQ_IMAGE | GATEWAY_IMAGE) printf '%s\n' "$image" ;;
      QDRANT_IMAGE | OTEL_IMAGE) if [[ ${1:-} != early ]]; then printf '%s\n' "$image"; fi ;;
    esac
  done
  controller_image
}

# digest_of <image>: prints its digest, or nothing if it is unknown.
digest_of() { awk -v image="$1" '$1 == image && $2 != "-" { print $2 }' "$public_list"; }

# registry_of <image>: prints the host that serves it.
registry_of() {
  local first=${1%%/*}
  if [[ $1 != */* || ($first != *.* && $first != *:* && $first != localhost) ]]; then first=docker.io; fi
  printf '%s\n' "$first"
}

# repository_of <image>: prints its name on that host, with its tag.
repository_of() {
  local registry rest=$1
  registry=$(registry_of "$1")
  rest=${rest#"$registry/"}
  if [[ $registry == docker.io && $rest != */* ]]; then rest=library/$rest; fi
  printf '%s\n' "$rest"
}

# source_of <image>: prints the name to pull it by, from the mirror if there is one, and by its digest if that is known.
source_of() {
  local source=$1 digest
  digest=$(digest_of "$1")
  if [[ -n ${SHORTENER_MIRROR:-} ]]; then source=$SHORTENER_MIRROR/$(repository_of "$1"); fi
  if [[ -n $digest ]]; then source=${source%:*}@$digest; fi
  printf '%s\n' "$source"
}

# True for an answer that a retry does not change.
is_final() { grep -qiE 'denied|unauthorized|manifest unknown|not found|invalid reference|no matching manifest|no basic auth' "$1"; }

# try_pull <name>: pulls it, and retries with growing pauses after a failure. Progress and errors go to the log.
try_pull() {
  local attempt pause=${SHORTENER_PULL_PAUSE:-5} errors
  errors=$(mktemp)
  for ((attempt = 1; ; attempt++)); do
    if docker pull "$1" 2>"$errors"; then break; fi
    cat "$errors"
    if is_final "$errors" || ((attempt == pull_attempts)); then
      rm -f "$errors"
      echo "gave up after attempt $attempt"
      return 1
    fi
    echo "attempt $attempt of $pull_attempts to pull $1 failed, and the next one is in $pause s: $(tail -n 1 "$errors" | cut -c 1-100)"
    sleep "$pause"
    pause=$((pause * 2))
  done
  rm -f "$errors"
}

pull_as() {
  local image=$1 source=$2
  try_pull "$source" || return
  if [[ $source == "$image" ]]; then return; fi
  docker tag "$source" "$image"
  # Only the public name stays, because another run may use another mirror.
  if [[ -n ${SHORTENER_MIRROR:-} ]]; then docker image rm "$source" >/dev/null; fi
}

# pull image...: makes sure that the engine has each of them.
pull() {
  local image
  for image in "$@"; do
    if docker image inspect "$image" >/dev/null 2>&1; then continue; fi
    remedy=$pull_remedy step "Pull $image${SHORTENER_MIRROR:+ from $SHORTENER_MIRROR}" pull_as "$image" "$(source_of "$image")"
  done
}
