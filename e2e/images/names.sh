#!/usr/bin/env bash
# Names of the images that stand in for public ones. Sourced after cluster/lib.sh.
# shellcheck disable=SC2034 # the names are for the scripts that source this file
set -euo pipefail

# default_image <variable>: the image that the operator takes where that variable and a stack name none.
default_image() {
  default_images | awk -v name="$1" '$1 == name { print $2 }' | grep . ||
    die "settings.rs has no default for $1" "correct the name in e2e/images"
}

# stand_in <public image>: under a name that no registry serves.
stand_in() { printf 'localhost/%s\n' "$1"; }

# What the tests scrape and ask with, which no stack runs.
public_prometheus=prom/prometheus:v3.5.3

postgres_image=$(stand_in "$(default_image POSTGRES_IMAGE)")
postgres_17_image=$(stand_in "$(default_image POSTGRES_17_IMAGE)")
nginx_image=$(stand_in "$(default_image GATEWAY_IMAGE)")
valkey_image=$(stand_in "$(default_image CACHE_IMAGE)")
rabbitmq_image=$(stand_in "$(default_image RABBITMQ_IMAGE)")
collector_image=$(stand_in "$(default_image OTEL_IMAGE)")
qdrant_image=$(stand_in "$(default_image QDRANT_IMAGE)")
prometheus_image=$(stand_in "$public_prometheus")
controller_image=localhost/ingress-nginx/controller:v1.11.0-debian
calico_image=localhost/calico:v3.28.5

# images_before: the images that release 0.1.0 ran, each with the one of this release that stands in for it.
images_before() {
  cat <<IMAGES
localhost/postgres:17.6 $postgres_17_image
localhost/nginx:1.28.0 $nginx_image
localhost/valkey/valkey:8.1.4 $valkey_image
localhost/rabbitmq:4.2.5-management $rabbitmq_image
IMAGES
}
