#!/usr/bin/env bash
# Builds the kind node image for machines that cannot pull the public one: real Kubernetes and containerd from their
# Go modules, kind's own base files, and Debian packages for the rest. `node.sh name` prints the image's name.
# shellcheck source=../cluster/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../cluster/lib.sh"

provisioner=localhost/provisioner:1 # storage is there under this name
kubernetes=localhost/kubernetes:1
context=$cache/contexts/node

programs=$(built "$closed_dir/modules/kubernetes")

node_image() {
  local key
  key=$(
    {
      content_key "$closed_dir"/{rootfs.sh,node.sh,node,runtime-wrapper.sh}
      basename "$programs"
      if restricted; then echo without-sys-resource; fi
    } | sha256sum | cut -c 1-12
  )
  printf 'localhost/node:%s\n' "$key"
}

# Unpacking packages uses only one core, so the compiler runs at the same time.
build_parts() {
  local packages
  "$closed_dir/rootfs.sh" &
  packages=$!
  go_step "Compile Kubernetes, containerd, etcd, CoreDNS, kind and Helm from their Go modules (10 minutes the first time)" \
    "$closed_dir/modules/kubernetes"
  go_step "Compile the program of the pause image" "$closed_dir/node/pause"
  wait "$packages"
}

# program_image <image> <program> <file>: makes an image with only this program.
program_image() {
  local image=$1 program=$2 file=$3 folder=$context/$2
  mkdir -p "$folder"
  cp "$file" "$folder/$program"
  docker_build --quiet --tag "$image" --file - "$folder" <<EOT
FROM scratch
COPY $program /usr/local/bin/$program
ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
ENTRYPOINT ["/usr/local/bin/$program"]
EOT
}

# Makes the image of the program that is the control plane and kube-proxy, with a link for each of its names.
kubernetes_image() {
  local folder=$context/kubernetes name
  mkdir -p "$folder/bin"
  cp "$programs/kubernetes" "$folder/bin"
  for name in kube-apiserver kube-controller-manager kube-proxy kube-scheduler; do
    ln -s kubernetes "$folder/bin/$name"
  done
  docker_build --quiet --tag "$kubernetes" --build-arg "BASE=$(node_tools_image)" --file - "$folder" <<'EOT'
ARG BASE
FROM ${BASE}
COPY bin /usr/local/bin
ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
EOT
}

# Makes the images that kubeadm needs, with exactly the names and tags that it uses.
kubernetes_images() {
  local image name
  kubernetes_image
  "$programs/kubeadm" config images list --kubernetes-version "$("$programs/kubeadm" version -o short)" >"$context/images"
  while IFS= read -r image; do
    name=${image##*/}
    name=${name%%:*}
    case $name in
      # kubeadm calls the program by the name of the image.
      kube-*) docker tag "$kubernetes" "$image" ;;
      coredns) program_image "$image" coredns "$programs/coredns" ;;
      etcd) program_image "$image" etcd "$programs/server" ;;
      pause) program_image "$image" pause "$(built "$closed_dir/node/pause")/pause" ;;
      *) die "kubeadm asks for $image, which node.sh cannot build" "add it to kubernetes_images in node.sh" ;;
    esac
  done <"$context/images"
  program_image "$provisioner" provisioner "$programs/provisioner"
}

# Without CAP_SYS_RESOURCE, processes in the node can raise neither resource limits nor out-of-memory scores.
restrict_node() {
  local root=$1
  sed -i -E '/^(Limit|OOMScoreAdjust)/d' "$root/etc/systemd/system/containerd.service"
  sed -i 's/restrict_oom_score_adj = false/restrict_oom_score_adj = true/' "$root/etc/containerd/config.toml"
  mkdir -p "$root/usr/local/sbin"
  install -m 0755 "$closed_dir/runtime-wrapper.sh" "$root/usr/local/sbin/runc"
  ln -s /usr/sbin/runc "$root/usr/local/sbin/runc.real"
}

# Adds the files that lie over the root file system.
node_files() {
  local root=$context/node/root base pause
  base=$(module_dir "$closed_dir/modules/kubernetes" sigs.k8s.io/kind)/images/base/files
  mkdir -p "$root/usr/bin" "$root/usr/local/bin" "$root/kind/manifests" "$root/kind/images"
  cp -r --no-preserve=mode,ownership "$base"/{etc,kind,usr} "$root/"
  cp -r "$closed_dir/node/root/." "$root/"
  cp "$programs"/{kubeadm,kubelet,kubectl} "$root/usr/bin/"
  cp "$programs"/{containerd,containerd-shim-runc-v2,ctr} "$root/usr/local/bin/"
  pause=$(grep '/pause:' "$context/images")
  sed -i "s|sandbox_image = .*|sandbox_image = \"$pause\"|" "$root/etc/containerd/config.toml"
  "$programs/kubeadm" version -o short >"$root/kind/version"
  if restricted; then restrict_node "$root"; fi
}

build_node() {
  local images
  rm -rf "$context"
  mkdir -p "$context"
  kubernetes_images
  node_files
  mapfile -t images <"$context/images"
  docker save "${images[@]}" "$provisioner" >"$context/node/root/kind/images/kubernetes.tar"
  docker_build --tag "$(node_image)" --build-arg "ROOTFS=$(node_rootfs_image)" \
    --file "$closed_dir/node/Dockerfile" "$context/node"
  remove_leftovers "${images[@]}"
}

# Removes the images that are now inside the node image, and node images of earlier contents.
remove_leftovers() {
  local image
  docker image rm "$@" "$kubernetes" "$provisioner" >/dev/null
  while IFS= read -r image; do
    if [[ $image != "$(node_image)" ]]; then docker image rm "$image" >/dev/null || true; fi
  done < <(docker image ls --format '{{.Repository}}:{{.Tag}}' localhost/node)
  rm -rf "$context"
}

if [[ ${1:-} == name ]]; then
  node_image
  exit 0
fi
if docker image inspect "$(node_image)" >/dev/null 2>&1; then exit 0; fi
step "Compile the programs of a node and install its Debian packages (10 minutes the first time)" build_parts
step "Build the node image" build_node
