#!/usr/bin/env bash
# Puts the CNI plugin, its credentials and its configuration on the node, whose folders are mounted below /host.
# Needs NODE_NAME and the token of the plugin's own ServiceAccount in /credentials.
set -euo pipefail
umask 077

bin=/host/opt/cni/bin
conf=/host/etc/cni/net.d
host=$KUBERNETES_SERVICE_HOST
subnet=usePodCidr
if [[ $host == *:* ]]; then
  host="[$host]"
  subnet=usePodCidrIPv6
fi

# Renaming replaces the plugin at once, also while a pod is being set up with the old one.
install -m 0755 /opt/calico/calico "$bin/.calico"
mv "$bin/.calico" "$bin/calico"

ca=$(base64 --wrap=0 /credentials/ca.crt)
cat >"$conf/.calico-kubeconfig" <<YAML
apiVersion: v1
kind: Config
clusters:
  - name: local
    cluster:
      server: https://$host:$KUBERNETES_SERVICE_PORT
      certificate-authority-data: $ca
users:
  - name: calico
    user:
      token: $(</credentials/token)
contexts:
  - name: calico
    context:
      cluster: local
      user: calico
current-context: calico
YAML
mv "$conf/.calico-kubeconfig" "$conf/calico-kubeconfig"

# Last, because the runtime calls the plugin as soon as this file is there.
sed "s/@NODE_NAME@/$NODE_NAME/; s/@SUBNET@/$subnet/" /opt/calico/05-calico.conflist >"$conf/.05-calico"
mv "$conf/.05-calico" "$conf/05-calico.conflist"
