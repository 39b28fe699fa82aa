#!/usr/bin/env bash
# Creates the kind cluster $CLUSTER_NAME from kind-config.yaml, or takes the one that is there, and makes its context
# the current one in $KUBECONFIG. What this machine needs beyond kind-config.yaml is laid over it here.
# shellcheck source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

state=$cache/clusters/$CLUSTER_NAME

api_answers() { kubectl --request-timeout=5s get --raw=/readyz >/dev/null 2>&1; }

# patch_* print JSON patch operations, one a line, on kind-config.yaml.
patch_common() {
  printf '{"op":"replace","path":"/nodes/0/extraPortMappings/0/hostPort","value":%s}\n' "$GATEWAY_PORT"
  printf '{"op":"add","path":"/networking","value":{"ipFamily":"%s"}}\n' "$IP_FAMILY"
}

# The node's port 80 is its pods' then, which have IPv6 alone; the API server listens on both families.
patch_ipv6() {
  printf '{"op":"add","path":"/networking/apiServerAddress","value":"127.0.0.1"}\n'
  printf '{"op":"replace","path":"/nodes/0/extraPortMappings/0/listenAddress","value":"::1"}\n'
}

# A node image of our own brings no network of its own: Calico puts its configuration into an empty folder, so no pod
# ever starts on another network.
patch_closed() {
  printf '{"op":"add","path":"/networking/disableDefaultCNI","value":true}\n'
  printf '{"op":"add","path":"/nodes/0/extraMounts","value":[{"hostPath":"%s","containerPath":"/etc/cni/net.d"}]}\n' \
    "$state/cni"
}

# What the kubelet must be told on this host, in the form of a YAML mapping's lines; nothing on an ordinary one.
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
  if closed; then patch_closed; fi
}

# Every node, and every engine within it, watches many files; the usual limits are used up by the second cluster.
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
  mkdir -p "$state/cni"
  kubectl patch --local --filename "$repo/kind-config.yaml" --type json \
    --patch "[$(overlay | paste -s -d , -)]" --output yaml >"$state/kind-config.yaml"
  if closed; then image=$("$cluster_dir/node.sh" name); else image=$(node_image); fi
  kind create cluster --name "$CLUSTER_NAME" --config "$state/kind-config.yaml" --image "$image"
}

# What the node pulls by itself comes from the mirror as well. A registry on this machine's loopback is out of its reach.
tell_mirror() {
  local mirror=${SHORTENER_MIRROR:-}
  case $mirror in
    '') ;;
    localhost | localhost:* | 127.*) echo "the node does not reach $mirror, an address of this machine alone; it pulls from the public registries" ;;
    *)
      docker exec --interactive "$node" sh -c \
        'mkdir -p /etc/containerd/certs.d/_default && cat >/etc/containerd/certs.d/_default/hosts.toml' <<HOSTS
[host."https://$mirror"]
  capabilities = ["pull", "resolve"]
HOSTS
      ;;
  esac
}

# Docker Desktop keeps images and nodes on a disk of its own, and nothing but a container can tell how much of it is free.
check_engine_disk() {
  local free
  free=$(free_gib docker exec "$node" df -Pk /var)
  if ((free < 8)); then
    die "the Docker engine has $free GiB of disk left, and the stack and its images need 8 GiB" \
      "free some with 'docker system prune', or set a larger disk in Docker Desktop (Settings, Resources); then run 'make up' again"
  fi
}

# A node stops with its engine or its machine; it comes back with everything it had.
start_node() {
  local deadline=$((SECONDS + 120))
  docker start "$node"
  until api_answers; do
    if ((SECONDS >= deadline)); then
      echo "the API server did not answer within 120 s"
      return 1
    fi
    sleep 1
  done
}

# While kube-proxy changes its rules it may have none for a Service, and what is sent to the Service's address then leaves
# the node. Where something out there takes connections to any address, the client keeps such a one and never comes to its
# Service. What is still for a Service when it is forwarded is for nobody.
keep_services_inside() {
  local range rule iptables=iptables
  range=$(docker exec "$node" sed -n 's/^.*--service-cluster-ip-range=//p' /etc/kubernetes/manifests/kube-apiserver.yaml)
  if [[ $range == *:* ]]; then iptables=ip6tables; fi
  rule=(FORWARD --destination "$range" --jump DROP)
  docker exec "$node" "$iptables" --wait --table mangle --check "${rule[@]}" 2>/dev/null \
    || docker exec "$node" "$iptables" --wait --table mangle --append "${rule[@]}"
}

if ! closed; then pull "$(node_image)"; fi
if ! kind get clusters 2>/dev/null | grep -xF "$CLUSTER_NAME" >/dev/null; then
  remedy="run 'make down' and try again; for a container or a small virtual machine, see 'Restricted hosts' in e2e/cluster/README.md" \
    step "Create the cluster $CLUSTER_NAME" create_cluster
  if ! closed; then tell_mirror; fi
  check_engine_disk
  keep_services_inside
  exit 0
fi
kind export kubeconfig --name "$CLUSTER_NAME" >/dev/null 2>&1 || true
if api_answers; then
  say "==> The cluster $CLUSTER_NAME exists and answers"
else
  remedy="remove the cluster with 'make down' and create it again with 'make up'" \
    step "Start the node of the cluster $CLUSTER_NAME" start_node
fi
keep_services_inside
