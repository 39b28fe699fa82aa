#!/usr/bin/env bash
# Builds the kind node image for machines that cannot pull the public one: real Kubernetes and containerd from their Go
# modules, kind's own base files, Debian packages for the rest. `node.sh name` prints the image's name.
# shellcheck source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

node_tools=(kubernetes containerd etcd coredns local-path-provisioner)
provisioner=rancher/local-path-provisioner:v0.0.30
context=$cache/contexts/node

tool_dir() { built "$cluster_dir/tools/$1"; }

node_image() {
  local tool key
  key=$(
    {
      content_key "$cluster_dir"/{rootfs.sh,node.sh,node,runtime-wrapper.sh}
      for tool in kind "${node_tools[@]}"; do basename "$(tool_dir "$tool")"; done
      if restricted; then echo without-sys-resource; fi
    } | sha256sum | cut -c 1-12
  )
  printf 'local/node:%s\n' "$key"
}

build_programs() {
  local tool
  for tool in "${node_tools[@]}"; do gobuild "$cluster_dir/tools/$tool"; done
  gobuild "$cluster_dir/node/pause"
}

# program_image <image> <program> <file> [base]: an image with this one program.
program_image() {
  local image=$1 program=$2 file=$3 base=${4:-scratch} folder=$context/$2
  mkdir -p "$folder"
  cp "$file" "$folder/$program"
  docker_build --quiet --tag "$image" --file - "$folder" <<EOT
FROM $base
COPY $program /usr/local/bin/$program
ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
ENTRYPOINT ["/usr/local/bin/$program"]
EOT
}

# The images that kubeadm asks for, under exactly the names and tags it asks for.
kubernetes_images() {
  local kubernetes image name
  kubernetes=$(tool_dir kubernetes)
  "$kubernetes/kubeadm" config images list --kubernetes-version "$("$kubernetes/kubeadm" version -o short)" >"$context/images"
  while IFS= read -r image; do
    name=${image##*/}
    name=${name%%:*}
    case $name in
      kube-proxy) program_image "$image" "$name" "$kubernetes/$name" "$(node_rootfs_image)" ;;
      kube-*) program_image "$image" "$name" "$kubernetes/$name" ;;
      etcd) program_image "$image" etcd "$(tool_dir etcd)/server" ;;
      coredns) program_image "$image" coredns "$(tool_dir coredns)/coredns" ;;
      pause) program_image "$image" pause "$(built "$cluster_dir/node/pause")/pause" ;;
      *) die "kubeadm asks for $image, which node.sh cannot build" "add it to kubernetes_images in node.sh" ;;
    esac
  done <"$context/images"
  program_image "$provisioner" local-path-provisioner "$(tool_dir local-path-provisioner)/local-path-provisioner"
}

# Storage as on the public node image: the class `standard`, the default, on folders of the node.
storage_manifest() {
  local source
  source=$(module_dir "$cluster_dir/tools/local-path-provisioner" github.com/rancher/local-path-provisioner)
  sed -E \
    -e "s|image: busybox.*|image: $(node_rootfs_image)|" \
    -e 's|/opt/local-path-provisioner|/var/local-path-provisioner|' \
    -e 's|^  name: local-path$|  name: standard\n  annotations: {storageclass.kubernetes.io/is-default-class: "true"}|' \
    "$source/deploy/local-path-storage.yaml"
}

# Where CAP_SYS_RESOURCE is missing neither resource limits nor out-of-memory scores can be raised inside the node.
restrict_node() {
  local root=$1
  sed -i -E '/^(Limit|OOMScoreAdjust)/d' "$root/etc/systemd/system/containerd.service"
  sed -i 's/restrict_oom_score_adj = false/restrict_oom_score_adj = true/' "$root/etc/containerd/config.toml"
  mkdir -p "$root/usr/local/sbin"
  install -m 0755 "$cluster_dir/runtime-wrapper.sh" "$root/usr/local/sbin/runc"
  ln -s /usr/sbin/runc "$root/usr/local/sbin/runc.real"
}

# The files that are laid over the root file system.
node_files() {
  local root=$context/node/root base kubernetes pause
  base=$(module_dir "$cluster_dir/tools/kind" sigs.k8s.io/kind)/images/base/files
  kubernetes=$(tool_dir kubernetes)
  mkdir -p "$root/usr/bin" "$root/usr/local/bin" "$root/kind/manifests" "$root/kind/images"
  cp -r --no-preserve=mode,ownership "$base"/{etc,kind,usr} "$root/"
  cp -r "$cluster_dir/node/root/." "$root/"
  cp "$kubernetes"/{kubeadm,kubelet,kubectl} "$root/usr/bin/"
  cp "$(tool_dir containerd)"/* "$root/usr/local/bin/"
  pause=$(grep '/pause:' "$context/images")
  sed -i "s|sandbox_image = .*|sandbox_image = \"$pause\"|" "$root/etc/containerd/config.toml"
  "$kubernetes/kubeadm" version -o short >"$root/kind/version"
  storage_manifest >"$root/kind/manifests/default-storage.yaml"
  if restricted; then restrict_node "$root"; fi
}

build_node() {
  local images
  rm -rf "$context"
  mkdir -p "$context"
  kubernetes_images
  node_files
  mapfile -t images <"$context/images"
  docker save "${images[@]}" "$provisioner" "$(node_rootfs_image)" >"$context/node/root/kind/images/kubernetes.tar"
  docker_build --tag "$(node_image)" --build-arg "ROOTFS=$(node_rootfs_image)" \
    --file "$cluster_dir/node/Dockerfile" "$context/node"
  remove_leftovers "${images[@]}"
}

# What lies inside the node image is not needed beside it, nor are the node images of earlier contents.
remove_leftovers() {
  local image
  docker image rm "$@" "$provisioner" >/dev/null
  while IFS= read -r image; do
    if [[ $image != "$(node_image)" ]]; then docker image rm "$image" >/dev/null || true; fi
  done < <(docker image ls --format '{{.Repository}}:{{.Tag}}' local/node)
  rm -rf "$context"
}

if [[ ${1:-} == name ]]; then
  node_image
  exit 0
fi
if docker image inspect "$(node_image)" >/dev/null 2>&1; then exit 0; fi
step "Build Kubernetes, containerd, etcd and CoreDNS from their Go modules (11 minutes the first time)" build_programs
"$cluster_dir/rootfs.sh"
step "Build the node image" build_node
