#!/usr/bin/env bash
# Installs RabbitMQ's cluster operator in the cluster of $KUBECONFIG, for the tests of brokers with several members. Its
# manifest comes from its Go module, so other machines need Go as well. A second run changes nothing.
# shellcheck source=../lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
# shellcheck source=../../images/names.sh
. "$repo/e2e/images/names.sh"

# Prints the manifest of the release: without limits, with which the operator is slow on a busy machine, and on a closed
# machine with the image that is built here. Stacks name the image of the members.
manifest() {
  local source image
  source=$(module_dir "$closed_dir/modules/rabbitmq-operator" github.com/rabbitmq/cluster-operator/v2)
  image=rabbitmqoperator/cluster-operator:${source##*@v}
  if closed; then image=$rabbitmq_operator_image; fi
  kubectl kustomize "$source/config/installation" |
    sed -e '/^kind: Deployment$/,$ {' -e '/^          limits:$/,/memory:/d' -e 's|cpu: 200m|cpu: 10m|' \
      -e 's|memory: 500Mi|memory: 50Mi|' -e "s|image: .*|image: $image|" -e '}'
}

install_rabbitmq_operator() {
  manifest | kubectl apply --server-side --filename -
  kubectl --namespace rabbitmq-system rollout status --timeout 180s deployment/rabbitmq-cluster-operator
}

if closed; then
  "$repo/e2e/images/build.sh" rabbitmq_operator
  "$cluster_dir/load.sh" "$rabbitmq_operator_image"
fi
remedy="kubectl -n rabbitmq-system describe pods; kubectl -n rabbitmq-system logs deploy/rabbitmq-cluster-operator" \
  step "Install RabbitMQ's cluster operator" install_rabbitmq_operator
