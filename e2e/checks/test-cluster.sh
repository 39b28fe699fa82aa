# shellcheck shell=bash
# The cluster of `make test`. It has a name, a port and a kubeconfig of its own, so that it runs beside the one of
# `make up`. Sourced after lib.sh by e2e/test.sh and bench-operator.sh.
# shellcheck source=../images/names.sh
. "$repo/e2e/images/names.sh"

export CLUSTER_NAME=shortener-test GATEWAY_PORT=18080
export KUBECONFIG=$cache/kubeconfig-$CLUSTER_NAME
export SHORTENER_PARTS=tests
operator_namespace=shortener-system
cluster_is_up=no
# The tests that only `make test-all` runs, because of their time: of the target `cluster` the second protocol of each
# gateway, backends that are away, which the tests of the app and the worker have without a cluster, and what needs an object
# store, CloudNativePG, RabbitMQ's operator or KEDA, which take minutes to compile; of the target `serial` what needs minutes,
# or metrics-server.
# shellcheck disable=SC2034 # not every script that sources this file runs tests
slow_cluster_tests=(
  ::ingress_nginx_by_https:: ::standalone:: ::gateway_api:: outages:: cache_nonsense:: backup_bucket:: cloud_native_pg::
  database_move:: pooler:: rabbitmq_cluster:: workers_by_keda::
)
# shellcheck disable=SC2034
slow_serial_tests=(
  profiles:: rollout::without_the_drain rollout::a_rolling_update_behind_ingress_nginx starvation:: chaos:: rest::
  namespace:: lent_certificate:: drift::every_child_of_every_profile scope:: before:: app_by_load::
  drills::a_drill_of_each_store drills::a_drill_lets_a_cluster
)

# The release from which the tests upgrade, made by e2e/before/make.sh: its commit, the folder with its files, the beginning
# of the names of its images, and the values of its chart for the cluster of the tests.
before_commit=$(<"$repo/e2e/before/commit")
before=$cache/before/$before_commit
# shellcheck disable=SC2034 # only e2e/before/make.sh reads it
before_names=$local_images/before-${before_commit:0:12}
before_values=$cache/clusters/$CLUSTER_NAME/before.yaml

# Starts to build the parts that only the cluster needs, in parallel with the steps that use one core.
begin_cluster_parts() {
  e2e/cluster/engine.sh || return
  if closed; then e2e/closed/parts.sh begin; fi
}

cluster_parts() {
  e2e/cluster/engine.sh || return
  if closed; then e2e/closed/parts.sh; else e2e/cluster/tools.sh cluster; fi
}

image_versions() {
  if closed; then e2e/closed/versions.sh; fi
}

# A cluster of an earlier run would prove nothing, so there is always a new one.
cluster_up() {
  e2e/cluster/down.sh && e2e/cluster/up.sh cluster && reach_node && e2e/cluster/addons/contour.sh
}

# Many tests connect to the address of a node. Without this check each of them would wait for minutes.
reach_node() {
  local address
  address=$(kubectl get nodes --output 'jsonpath={.items[0].status.addresses[?(@.type=="InternalIP")].address}') || return
  curl --silent --insecure --noproxy '*' --max-time 20 --output /dev/null "https://$address:6443/livez" \
    || die "this machine does not reach the address of the cluster's node, $address" \
      "use a Docker engine that runs on this machine itself, as root: one in a virtual machine (Docker Desktop) and a rootless one lead there by published ports only"
}

cluster_down() {
  [[ $cluster_is_up == yes ]] || return 0
  if [[ ${KEEP_CLUSTER:-} == 1 ]]; then
    say "the cluster $CLUSTER_NAME stays (KEEP_CLUSTER=1): use it with KUBECONFIG=$KUBECONFIG kubectl get sst -A, remove it with CLUSTER_NAME=$CLUSTER_NAME make down"
  else
    e2e/cluster/down.sh
  fi
}

# Takes the cluster of the tests for a script of its own, and builds what runs in it. Call it as a plain command: in a
# condition, `set -e` would not hold in it.
claim_cluster() {
  exec 8>"$cache/test.lock"
  flock -n 8 || die "a run of the tests has not ended" "wait until it ends: both use the cluster $CLUSTER_NAME"
  trap cluster_down EXIT
  claim_target
  # The lock is ours alone: an engine that is started here would hold it for ever.
  cluster_parts 8>&-
  e2e/images/build.sh 8>&-
  cluster_is_up=yes
}

helm_test() {
  helm test shortener-operator --namespace "$operator_namespace" --logs
}

# cluster_tests <target of e2e/tests> [arguments of the test program]: leaves the settings in the folder of the cluster, for
# single tests by hand (CONTRIBUTING.md).
cluster_tests() {
  local target=$1 name
  shift
  export E2E_GATEWAY_URL=http://127.0.0.1:$GATEWAY_PORT
  export E2E_APP_IMAGE=$local_images/app:$version E2E_ECHO_IMAGE=$local_images/e2e-echo:$version
  export E2E_SINK_IMAGE=$local_images/otlp-sink:$version
  export E2E_PROMETHEUS_IMAGE=$public_prometheus
  export E2E_OBJECT_STORE_IMAGE=$public_seaweedfs
  if closed; then E2E_PROMETHEUS_IMAGE=$prometheus_image E2E_OBJECT_STORE_IMAGE=$seaweedfs_image; fi
  E2E_OPERATOR=$CARGO_TARGET_DIR/$(host_triple)/quick/operator
  E2E_POSTGRES_IMAGE=$(operator_setting POSTGRES_IMAGE "$(default_image POSTGRES_IMAGE)") || return
  E2E_POSTGRES_17_IMAGE=$(operator_setting POSTGRES_17_IMAGE "$(default_image POSTGRES_17_IMAGE)") || return
  export E2E_BEFORE=$before E2E_BEFORE_VALUES=$before_values
  export E2E_OPERATOR E2E_POSTGRES_IMAGE E2E_POSTGRES_17_IMAGE
  {
    printf 'export PATH=%q:$PATH\n' "$cache/bin"
    for name in KUBECONFIG "${!E2E_@}"; do printf 'export %s=%q\n' "$name" "${!name}"; done
  } >"$cache/clusters/$CLUSTER_NAME/e2e.env"
  # If CI ended the run from outside, the log would not show the reason. The slow tests one by one need 40 minutes alone.
  timeout "$([[ ${everything:-} == yes ]] && printf 80m || printf 45m)" cargo test --profile quick --workspace --no-fail-fast --test "$target" -- "$@"
}

# operator_setting <variable> <default>: prints the setting of the installed operator.
operator_setting() {
  local value
  value=$(kubectl --namespace "$operator_namespace" get deployment shortener-operator \
    --output jsonpath="{.spec.template.spec.containers[0].env[?(@.name==\"$1\")].value}") || return
  printf '%s\n' "${value:-$2}"
}

# Prints what a failed test, which prints the state of its namespace, does not: the logs of the controllers.
diagnose() {
  say "--- operator"
  kubectl --namespace "$operator_namespace" describe pods
  kubectl --namespace "$operator_namespace" logs deployment/shortener-operator --tail 300
  if kubectl get namespace keda >/dev/null 2>&1; then
    say "--- KEDA"
    kubectl --namespace keda logs deployment/keda-operator --tail 100
  fi
  say "--- controllers of the Ingresses and of the Gateway"
  kubectl --namespace ingress-nginx logs --selector app.kubernetes.io/component=controller --tail 60
  kubectl --namespace projectcontour logs deployment/contour --all-containers --tail 60
}
