#!/usr/bin/env bash
# Runs `make up` with public images, from nothing to a stack that answers, as a user without root, Rust and Go. A
# mirror on loopback is busy at first and serves the images of closed machines under the public names; releases of
# kind, kubectl and helm come from there too. For Debian as root, after `make up` or `make test` on a closed
# machine, whose images it uses.
#
#   public-path.sh            runs everything; removes the cluster, the user and the images at the end
#   public-path.sh builder    makes only the image that replaces the public one with the Rust compiler
#
# OLD_BASH names a bash 3.2 for the user. KEEP_CLUSTER=1 removes nothing.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source e2e/checks/registry.sh
source e2e/checks/faults.sh

export CLUSTER_NAME=shortener-public GATEWAY_PORT=18180
user=shortener-public
home=/var/lib/$user
work=$home/work
builder=localhost/builder:$(key=$(rustc -vV | sha256sum) && printf '%s' "${key:0:12}")

cleanup() {
  if [[ ${KEEP_CLUSTER:-} != 1 ]]; then
    kind delete cluster --name "$CLUSTER_NAME" 2>/dev/null || true
    public_names | while IFS= read -r image; do docker image rm "$image" >/dev/null 2>&1 || true; done
    stop_faults
    stop_registry "${registry_pid:-}" || true # in a trap its bare return has the status from before
    userdel "$user" 2>/dev/null || true
    rm -rf "$home"
  fi
}

# Debian's C compiler and this machine's Rust, at the paths of `rust:<version>`, and the
# certificates that this machine trusts.
make_builder() {
  local context
  if docker image inspect "$builder" >/dev/null 2>&1; then return; fi
  apt_install mmdebstrap
  context=$(mktemp -d)
  mmdebstrap --variant=minbase --include=gcc,libc6-dev,ca-certificates bookworm - "$(debian_sources)" >"$context/rootfs.tar"
  mkdir "$context/toolchain"
  cp -r "$(rustc --print sysroot)"/{bin,lib} "$context/toolchain"
  cp /etc/ssl/certs/ca-certificates.crt "$context"
  docker_build --quiet --tag "$builder" --file - "$context" <<DOCKERFILE
FROM scratch
ADD rootfs.tar /
COPY toolchain /usr/local
COPY ca-certificates.crt /etc/ssl/certs/
ENV CARGO_HTTP_CAINFO=/etc/ssl/certs/ca-certificates.crt
DOCKERFILE
  rm -rf "$context"
}

# The node image of closed machines, with the addition of the public one: a network that kind finds and starts.
make_node() {
  local context
  context=$(mktemp -d)
  cat >"$context/bridge.conflist" <<'CONFLIST'
{"cniVersion": "1.0.0", "name": "bridge", "plugins": [
  {"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": true, "hairpinMode": true,
   "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.244.0.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}]}
CONFLIST
  printf 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: network, namespace: kube-system}\n' >"$context/default-cni.yaml"
  docker_build --quiet --tag localhost/public-node --file - "$context" <<DOCKERFILE
FROM $(SHORTENER_CLOSED=yes "$cluster_dir/node.sh" name)
COPY bridge.conflist /etc/cni/net.d/10-bridge.conflist
COPY default-cni.yaml /kind/manifests/default-cni.yaml
RUN mkdir -p /opt/cni && rm -rf /opt/cni/bin && ln -s /usr/lib/cni /opt/cni/bin
DOCKERFILE
  rm -rf "$context"
}

public_names() {
  stack_images
  node_image
  builder_image
}

# stand_in_for <public image>: prints the local image that replaces it: of the same name below
# localhost/, or of the same repository.
stand_in_for() {
  local repository=${1%:*} image
  case $1 in
    "$(node_image)") echo localhost/public-node ;;
    "$(builder_image)") echo "$builder" ;;
    *)
      repository=localhost/${repository#registry.k8s.io/}
      image=$(docker image ls --format '{{.Repository}}:{{.Tag}}' "$repository" | { grep -xF "localhost/$1" || true; })
      if [[ -z $image ]]; then image=$(docker image ls --format '{{.Repository}}:{{.Tag}}' "$repository" | sed -n 1p); fi
      [[ -n $image ]] || die "there is no local image to replace $1" "build it: SHORTENER_CLOSED=yes e2e/images/build.sh"
      printf '%s\n' "$image"
      ;;
  esac
}

# Fills the registry, and writes the list of images with their digests there.
push_images() {
  local image target
  public_names | while IFS= read -r image; do
    target=$registry_address/$(repository_of "$image")
    docker tag "$(stand_in_for "$image")" "$target"
    docker push --quiet "$target" >&2
    docker image rm "$target" >/dev/null
    printf '%s %s\n' "$image" "$(crane digest "$target")"
  done >"$work/images"
}

# Provides the programs and the chart that closed machines build as releases of this platform.
release_files() {
  local platform files=$work/files program
  platform=$(host_platform)
  mkdir -p "$files/$platform"
  for program in kind kubectl helm; do cp -L "$cache/bin/$program" "$files/$platform/"; done
  tar -czf "$files/helm.tgz" -C "$files" "$platform/helm"
  tar -czf "$files/ingress-nginx" -C "$(module_dir e2e/images/modules/ingress-nginx k8s.io/ingress-nginx)/charts" ingress-nginx
  for program in "$platform/kind" "$platform/kubectl" helm.tgz ingress-nginx; do
    printf 'url %s http://%s/files/%s\n' "$(basename "$program" .tgz)" "$SHORTENER_MIRROR" "$program"
    printf '%s test %s %s\n' "$(basename "$program" .tgz)" "$platform" "$(sha256sum "$files/$program" | cut -c 1-64)"
  done >"$work/releases"
}

# Creates a user with a checkout. A call of a compiler is recorded and fails.
make_user() {
  local program
  useradd --system --home-dir "$home" --create-home --groups docker --shell /bin/bash "$user"
  mkdir -p "$work/bin" "$home/checkout"
  git ls-files --cached --others --exclude-standard -z | tar -c --null --files-from - --ignore-failed-read 2>/dev/null | tar -x -C "$home/checkout"
  for program in go cargo rustc cc gcc; do
    # shellcheck disable=SC2016 # written as it stands
    printf '#!/bin/sh\necho "$0 $*" >>%s/compilers\nexit 1\n' "$work" >"$work/bin/$program"
    chmod 0755 "$work/bin/$program"
  done
  if [[ -n ${OLD_BASH:-} ]]; then install -m 0755 "$OLD_BASH" "$work/bin/bash"; fi
  chown -R "$user" "$home"
}

as_user() {
  runuser -u "$user" -- env -i HOME="$home" PATH="$work/bin:/usr/local/bin:/usr/bin:/bin" KUBECONFIG="$home/kubeconfig" \
    CLUSTER_NAME="$CLUSTER_NAME" GATEWAY_PORT="$GATEWAY_PORT" SHORTENER_CLOSED=no SHORTENER_MIRROR="$SHORTENER_MIRROR" \
    SHORTENER_IMAGES="$work/images" SHORTENER_RELEASES="$work/releases" "$@"
}

expect() {
  grep -qF -- "$1" "$work/out" || die "the output of make up lacks: $1" "read the output above"
}

if [[ ${1:-} == builder ]]; then
  make_builder
  exit
fi
trap cleanup EXIT
step "Make the image with the compiler" make_builder
step "Make the node image" make_node
make_user
start_registry "$work/registry"
start_faults "$registry_address" "$work"
step "Push the images to the registry" push_images
step "Pack the releases" release_files
chown -R "$user" "$work"
plan busy 2
as_user make -C "$home/checkout" up 2>&1 | tee "$work/out"
expect "Public images are pulled from the mirror $SHORTENER_MIRROR"
expect "ShortenerStack demo is ready"
grep -q '^busy ' "$work/requests" || die "the mirror was never busy" "see e2e/checks/faults/main.go"
[[ ! -e $work/compilers ]] || die "make up called a compiler of this machine: $(cat "$work/compilers")" "see compiles_here in e2e/cluster/lib.sh: only the container may compile"
as_user make -C "$home/checkout" down
say "make up works with public images, as a user without root, Rust or Go"
