#!/usr/bin/env bash
# Adds to each node of $CLUSTER_NAME that runs the routes to the pods of the others. The network plugin of the public node
# image does that by itself; Calico without BGP does not. A node that has stopped needs them again.
# shellcheck source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# Prints `<name> <address> <range of its pods>` for each node.
addresses() {
  kubectl get nodes --output jsonpath='{range .items[*]}{.metadata.name}{" "}{.status.addresses[?(@.type=="InternalIP")].address}{" "}{.spec.podCIDR}{"\n"}{end}'
}

running=$(docker ps --filter status=running --format '{{.Names}}')
known=$(addresses)
while read -r name _; do
  if ! grep -xF "$name" <<<"$running" >/dev/null; then continue; fi
  while read -r other address range; do
    if [[ $other != "$name" ]]; then docker exec "$name" ip route replace "$range" via "$address"; fi
  done <<<"$known"
done <<<"$known"
