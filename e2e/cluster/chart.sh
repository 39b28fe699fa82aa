#!/usr/bin/env bash
# Installs or upgrades both charts.
# shellcheck source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=../images/names.sh
. "$repo/e2e/images/names.sh"

values=$cache/clusters/$CLUSTER_NAME/values.yaml

# The tag stays the same while the code changes, so the Deployment rolls when the image's ID changes.
write_values() {
  mkdir -p "$(dirname "$values")"
  cat >"$values" <<VALUES
podAnnotations:
  shortener.dev/image-id: "$(docker image inspect --format '{{.Id}}' "$local_images/operator:$version")"
image:
  repository: $local_images/operator
images:
  app: $local_images/app:$version
  worker: $local_images/worker:$version
VALUES
  if closed; then
    cat >>"$values" <<VALUES
  postgres: $postgres_image
  postgres17: $postgres_17_image
  cache: $valkey_image
  rabbitmq: $rabbitmq_image
  qdrant: $qdrant_image
  gateway: $nginx_image
  otel: $collector_image
  rclone: $rclone_image
VALUES
  fi
}

install_charts() {
  helm upgrade --install shortener-definition "$repo/charts/shortener-definition" \
    --namespace shortener-system --create-namespace
  helm upgrade --install shortener-operator "$repo/charts/shortener-operator" \
    --namespace shortener-system --values "$values" --wait --timeout 3m
}

write_values
remedy="kubectl -n shortener-system describe pods; kubectl -n shortener-system logs deploy/shortener-operator" \
  step "Install the charts" install_charts
