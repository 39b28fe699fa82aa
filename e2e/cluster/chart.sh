#!/usr/bin/env bash
# Installs the operator's chart, or brings it up to date.
# shellcheck source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

values=$cache/clusters/$CLUSTER_NAME/values.yaml

# The tag stays the same while the code changes, so the image's ID tells the Deployment when to roll.
write_values() {
  mkdir -p "$(dirname "$values")"
  printf 'podAnnotations:\n  shortener.dev/image-id: "%s"\n' \
    "$(docker image inspect --format '{{.Id}}' "shortenerstack/operator:$version")" >"$values"
  if closed; then printf 'images:\n  postgres: local/postgres:15\n  cache: local/valkey:7\n  rabbitmq: local/rabbitmq:3.10\n  qdrant: local/qdrant:edge\n  gateway: local/nginx:1.22\n  otel: local/otel-collector:0.162\n' >>"$values"; fi
}

install_chart() {
  helm upgrade --install shortener-operator "$repo/charts/shortener-operator" \
    --namespace shortener-system --create-namespace --values "$values" --wait --timeout 3m
}

write_values
remedy="kubectl -n shortener-system describe pods; kubectl -n shortener-system logs deploy/shortener-operator" \
  step "Install the operator's chart" install_chart
