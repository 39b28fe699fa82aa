#!/usr/bin/env bash
# Creates the kind cluster $CLUSTER_NAME from kind-config.yaml, or uses the existing one, and makes its context the
# current one in $KUBECONFIG. Patches kind-config.yaml with the settings that this machine needs besides.
# shellcheck source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

state=$cache/clusters/$CLUSTER_NAME

api_answers() { kubectl --request-timeout=5s get --raw=/readyz >/dev/null 2>&1; }

# Each function patch_* prints JSON patch operations on kind-config.yaml, one per line.
patch_common() {
  printf '{"op":"replace","path":"/nodes/0/extraPortMappings/0/hostPort","value":%s}\n' "$GATEWAY_PORT"
  printf '{"op":"add","path":"/networking","value":{"ipFamily":"%s"}}\n' "$IP_FAMILY"
}

# The published port leads to pods, which have IPv6 addresses only; the API server listens on both families.
patch_ipv6() {
  printf '{"op":"add","path":"/networking/apiServerAddress","value":"127.0.0.1"}\n'
  printf '{"op":"replace","path":"/nodes/0/extraPortMappings/0/listenAddress","value":"::1"}\n'
}

patch_workers() {
  local number
  for ((number = 1; number <= WORKERS; number++)); do
    printf '{"op":"add","path":"/nodes/-","value":{"role":"worker","labels":{"topology.kubernetes.io/zone":"zone-%s"}}}\n' \
      "$number"
  done
}

# A node image that is built here contains no network plugin. Calico writes its configuration into an empty folder, so
# no pod ever starts on another network.
patch_closed() {
  local number
  printf '{"op":"add","path":"/networking/disableDefaultCNI","value":true}\n'
  for ((number = 0; number <= WORKERS; number++)); do
    mkdir -p "$state/cni/$number"
    printf '{"op":"add","path":"/nodes/%s/extraMounts","value":[{"hostPath":"%s","containerPath":"/etc/cni/net.d"}]}\n' \
      "$number" "$state/cni/$number"
  done
}

# Prints the kubelet settings that this host needs, as lines of a YAML mapping; nothing on an ordinary host.
kubelet_settings() {
  if [[ $(docker info --format '{{.CgroupVersion}}') == 1 ]]; then printf 'failCgroupV1: false\n'; fi
  if restricted; then printf 'featureGates: {KubeletInUserNamespace: true}\n'; fi
}

patch_kubelet() {
  local settings
  settings=$(kubelet_settings | awk '{printf "\\n%s", $0}')
  if [[ -n $settings ]]; then
    printf '{"op":"add","path":"/kubeadmConfigPatches","value":["kind: KubeletConfiguration%s"]}\n' "$settings"
  fi
}

overlay() {
  patch_common
  if [[ $IP_FAMILY == ipv6 ]]; then patch_ipv6; fi
  patch_kubelet
  patch_workers
  if closed; then patch_closed; fi
}

# Raises the limits of inotify: every node and its container runtime watch many files, and a second cluster would
# exceed the defaults.
raise_watch_limits() {
  if ((EUID != 0)) || [[ ! -d /proc/sys/fs/inotify ]]; then return; fi
  local limit wanted
  for limit in max_user_instances=512 max_user_watches=524288; do
    wanted=${limit#*=}
    if (($(</proc/sys/fs/inotify/"${limit%=*}") < wanted)); then
      echo "$wanted" >/proc/sys/fs/inotify/"${limit%=*}" || true
    fi
  done
}

create_cluster() {
  local image
  raise_watch_limits
  rm -rf "$state"
  mkdir -p "$state"
  kubectl patch --local --filename "$repo/kind-config.yaml" --type json \
    --patch "[$(overlay | paste -s -d , -)]" --output yaml >"$state/kind-config.yaml"
  if closed; then image=$("$closed_dir/node.sh" name); else image=$(node_image); fi
  kind create cluster --name "$CLUSTER_NAME" --config "$state/kind-config.yaml" --image "$image"
}

# tell_mirror <node>: makes the node's pulls use the mirror as well. The node cannot reach a registry on this machine's
# loopback.
tell_mirror() {
  local name=$1 mirror=${SHORTENER_MIRROR:-}
  case $mirror in
    '') ;;
    localhost | localhost:* | 127.*) echo "the node does not reach $mirror, an address of this machine alone; it pulls from the public registries" ;;
    *)
      docker exec --interactive "$name" sh -c \
        'mkdir -p /etc/containerd/certs.d/_default && cat >/etc/containerd/certs.d/_default/hosts.toml' <<HOSTS
[host."https://$mirror"]
  capabilities = ["pull", "resolve"]
HOSTS
      ;;
  esac
}

# Reads the free space inside the node, because Docker Desktop keeps images and nodes on a disk of its own.
check_engine_disk() {
  local free
  free=$(free_gib docker exec "$node" df -Pk /var)
  if ((free < 8)); then
    die "the Docker engine has $free GiB of disk left, and the stack and its images need 8 GiB" \
      "free some with 'docker system prune', or set a larger disk in Docker Desktop (Settings, Resources); then run 'make up' again"
  fi
}

# Starts the nodes, which stopped with their engine or their machine; their state is kept.
start_nodes() {
  local deadline=$((SECONDS + 120))
  nodes | xargs docker start
  until api_answers; do
    if ((SECONDS >= deadline)); then
      echo "the API server did not answer within 120 s"
      return 1
    fi
    sleep 1
  done
}

# keep_services_inside <node>: drops packets to the address of a Service that would leave the node. While kube-proxy changes
# its rules, it may have none for a Service. If a machine outside the node accepts connections to any address, the client
# would connect to that machine and keep the connection, instead of reaching its Service.
keep_services_inside() {
  local name=$1 range rule iptables=iptables
  range=$(docker exec "$node" sed -n 's/^.*--service-cluster-ip-range=//p' /etc/kubernetes/manifests/kube-apiserver.yaml)
  if [[ $range == *:* ]]; then iptables=ip6tables; fi
  rule=(FORWARD --destination "$range" --jump DROP)
  docker exec "$name" "$iptables" --wait --table mangle --check "${rule[@]}" 2>/dev/null \
    || docker exec "$name" "$iptables" --wait --table mangle --append "${rule[@]}"
}

# Sets what the nodes lose when they stop.
prepare_nodes() {
  local name
  for name in $(nodes); do keep_services_inside "$name"; done
  if closed; then "$cluster_dir/routes.sh"; fi
}

tell_nodes_mirror() {
  local name
  for name in $(nodes); do tell_mirror "$name"; done
}

if ! closed; then pull "$(node_image)"; fi
if ! kind get clusters 2>/dev/null | grep -xF "$CLUSTER_NAME" >/dev/null; then
  remedy="run 'make down' and try again; for a container or a small virtual machine, see 'Restricted hosts' in e2e/closed/README.md" \
    step "Create the cluster $CLUSTER_NAME" create_cluster
  if ! closed; then tell_nodes_mirror; fi
  check_engine_disk
  prepare_nodes
  exit 0
fi
kind export kubeconfig --name "$CLUSTER_NAME" >/dev/null 2>&1 || true
if api_answers; then
  say "==> The cluster $CLUSTER_NAME exists and answers"
else
  remedy="remove the cluster with 'make down' and create it again with 'make up'" \
    step "Start the nodes of the cluster $CLUSTER_NAME" start_nodes
fi
prepare_nodes
