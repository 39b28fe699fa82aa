#!/usr/bin/env bash
# Installs CloudNativePG in the cluster of $KUBECONFIG, for the tests of databases with several instances. Its manifest comes
# from its Go module, so other machines need Go as well. A second run changes nothing.
# shellcheck source=../lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
# shellcheck source=../../images/names.sh
. "$repo/e2e/images/names.sh"

# Prints the manifest of the release: without limits, with which the operator is slow on a busy machine, and on a closed
# machine with the images that are built here, also for clusters and poolers that name none.
manifest() {
  local source variable changes=(-e '/^          limits:$/,/memory:/d' -e 's|cpu: 100m|cpu: 10m|')
  source=$(module_dir "$closed_dir/modules/cloudnative-pg" github.com/cloudnative-pg/cloudnative-pg)
  if closed; then
    changes+=(-e 's|Policy: Always|Policy: IfNotPresent|' -e "s|ghcr.io/cloudnative-pg/cloudnative-pg:.*|$cloudnative_pg_image|")
    for variable in POSTGRES_IMAGE_NAME PGBOUNCER_IMAGE_NAME; do
      changes+=(-e "/^        env:\$/a \\        - {name: $variable, value: $cloudnative_pg_postgres_image}")
    done
  fi
  sed "${changes[@]}" "$source/releases/cnpg-${source##*@v}.yaml"
}

install_cloudnative_pg() {
  manifest | kubectl apply --server-side --filename -
  kubectl --namespace cnpg-system rollout status --timeout 180s deployment/cnpg-controller-manager
}

if closed; then
  "$repo/e2e/images/build.sh" cloudnative_pg
  "$cluster_dir/load.sh" "$cloudnative_pg_image" "$cloudnative_pg_postgres_image"
fi
remedy="kubectl -n cnpg-system describe pods; kubectl -n cnpg-system logs deploy/cnpg-controller-manager" \
  step "Install CloudNativePG" install_cloudnative_pg
