#!/usr/bin/env bash
# Names of the images that stand in for public ones. Sourced after cluster/lib.sh.
# shellcheck disable=SC2034,SC2154 # the names are for the scripts that source this file; repo comes from cluster/lib.sh
set -euo pipefail

# default_image <variable>: prints the image that the operator uses if neither that variable nor a stack names one.
default_image() {
  default_images | awk -v name="$1" '$1 == name { print $2 }' | grep . ||
    die "operator/src/cli/settings/images.rs has no default image for $1" "correct the variable in e2e/images/names.sh"
}

# stand_in <public image>: prints its name below localhost/, which no registry serves.
stand_in() { printf 'localhost/%s\n' "$1"; }

# module_version <folder> <module>: prints the version that the go.mod of a folder of closed/modules requires, without the v.
module_version() {
  local file=e2e/closed/modules/$1/go.mod
  awk -v module="$2" '{ sub(/^require /, "") } $1 == module { print substr($2, 2) }' "$repo/$file" | grep . ||
    die "$file does not require $2" "correct the names in e2e/images/names.sh"
}

# The Prometheus of the tests, which is not part of a stack.
public_prometheus=prom/prometheus:v3.5.3

# The Gateway of the tests: its controller, and its data plane in the version that the controller's own manifest names.
public_contour=ghcr.io/projectcontour/contour:v1.33.8
public_envoy=envoyproxy/envoy:distroless-v1.38.9

# The object store of the tests.
public_seaweedfs=chrislusf/seaweedfs:3.97

postgres_image=$(stand_in "$(default_image POSTGRES_IMAGE)")
postgres_17_image=$(stand_in "$(default_image POSTGRES_17_IMAGE)")
nginx_image=$(stand_in "$(default_image GATEWAY_IMAGE)")
valkey_image=$(stand_in "$(default_image CACHE_IMAGE)")
rabbitmq_image=$(stand_in "$(default_image RABBITMQ_IMAGE)")
collector_image=$(stand_in "$(default_image OTEL_IMAGE)")
qdrant_image=$(stand_in "$(default_image QDRANT_IMAGE)")
rclone_image=$(stand_in "$(default_image RCLONE_IMAGE)")
seaweedfs_image=localhost/chrislusf/seaweedfs:7506e5f91cd6
prometheus_image=$(stand_in "$public_prometheus")
controller_image=localhost/ingress-nginx/controller:v1.11.0-debian
calico_image=localhost/calico:v3.28.5
contour_image=localhost/projectcontour/contour:v1.33.8
envoy_image=localhost/envoyproxy/envoy:v1.40.0
# The versions of operators are those of their Go modules.
cloudnative_pg_image=localhost/cloudnative-pg/cloudnative-pg:$(
  module_version cloudnative-pg github.com/cloudnative-pg/cloudnative-pg
)
cloudnative_pg_postgres_image=localhost/cloudnative-pg/postgresql:${postgres_image##*:}
# Both programs of KEDA, each of which has a public image.
keda_image=localhost/kedacore/keda:$(module_version scalers github.com/kedacore/keda/v2)
metrics_server_image=localhost/metrics-server/metrics-server:v$(module_version scalers sigs.k8s.io/metrics-server)
rabbitmq_operator_image=localhost/rabbitmqoperator/cluster-operator:$(module_version rabbitmq-operator github.com/rabbitmq/cluster-operator/v2)
