#!/usr/bin/env bash
# The chart: lint, both RBAC modes, Kubernetes' own schemas (kubeconform), good practice (kube-score), its values schema.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source "$(dirname "${BASH_SOURCE[0]}")/chart-tools.sh"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
schema_folder=$(schemas)

# render <name> <helm values...>: one rendering of the chart, checked against the schemas and scored.
render() {
  local name=$1 file=$work/$1.yaml
  shift
  helm template test "$chart" --namespace shortener-system "$@" >"$file"
  kubeconform -strict -summary -schema-location "$schema_folder/{{.ResourceKind}}{{.KindSuffix}}.json" "$file"
  # Images are pinned, so pulling them at every start would gain nothing.
  kube-score score --ignore-test container-image-pull-policy --output-format ci "$file" >"$work/$name.score" || {
    grep -E '^\[(CRITICAL|WARNING)\]' "$work/$name.score"
    die "kube-score rejects the rendering $name"
  }
  printf 'rendering %s is sound\n' "$name"
}

# kinds <name>: the kinds in a rendering, one a line.
kinds() {
  sed -n 's/^kind: //p' "$work/$1.yaml"
}

# refused <helm values...>: the values schema must say no.
refused() {
  local message
  if message=$(helm template test "$chart" "$@" 2>&1 >/dev/null); then
    die "the values schema accepts $*"
  fi
  grep -q 'values.schema.json\|meet the specifications of the schema' <<<"$message" || die "$* failed, but not by the schema: $message"
}

helm lint --strict "$chart"

render cluster-wide
render namespaces --set 'watchNamespaces={red,blue}'
render everything --set replicaCount=2 --set networkPolicy.restrictEgress=true --set image.tag=1.2.3 \
  --set-json 'networkPolicy.metricsFrom=[{"namespaceSelector":{}}]' \
  --set-json 'gatewayAllowFrom=[{"ipBlock":{"cidr":"10.0.0.0/8"}}]' \
  --set images.app=app:1,images.gateway=nginx:1,images.postgres=postgres:1,images.cache=valkey:1,images.rabbitmq=rabbitmq:1,images.worker=worker:1,images.otel=otelcol:1,images.telemetry=lgtm:1,images.qdrant=qdrant:1
render without-definitions --set crds.enabled=false

kinds cluster-wide | grep -qx ClusterRole || die "the cluster-wide rendering has no ClusterRole"
kinds cluster-wide | grep -qx CustomResourceDefinition || die "the default rendering lacks the resource definition"
! kinds namespaces | grep -q '^ClusterRole' || die "a list of namespaces must do without any ClusterRole"
for namespace in red blue; do
  (($(grep -c "^  namespace: $namespace$" "$work/namespaces.yaml") == 2)) || die "$namespace lacks its Role or RoleBinding"
done
! kinds without-definitions | grep -qx CustomResourceDefinition || die "crds.enabled=false still renders the definition"
grep -q 'helm.sh/resource-policy: keep' "$work/cluster-wide.yaml" || die "crds.keep does not mark the definition"
! helm template test "$chart" --set crds.keep=false | grep -q 'helm.sh/resource-policy' || die "crds.keep=false still keeps"
! grep -n '\["\?\*"\?\]\|^ *- "\?\*"\?$' "$work"/*.yaml | grep -v CustomResource || die "a rule holds a wildcard"
# Kubernetes' schemas do not know this kind.
helm template test "$chart" --namespace shortener-system --set metricsService.serviceMonitor.enabled=true \
  --set metricsService.serviceMonitor.labels.release=prometheus --show-only templates/servicemonitor.yaml >"$work/monitor.yaml"
grep -qx '    release: prometheus' "$work/monitor.yaml" || die "metricsService.serviceMonitor.labels do not reach the ServiceMonitor"
! kinds everything | grep -qx ServiceMonitor || die "a cluster without the Prometheus operator would refuse the default rendering"
kinds everything | grep -qx PodDisruptionBudget || die "two replicas need a disruption budget"

refused --set replicas=2
refused --set image.pullPolicy=Sometimes
refused --set-string replicaCount=two
refused --set 'watchNamespaces={Not_A_Name}'
refused --set images.redis=redis:8
refused --set metricsService.port=70000
refused --set-json 'gatewayAllowFrom=[{"host":"example.com"}]'
printf 'the values schema refuses what it should\n'
