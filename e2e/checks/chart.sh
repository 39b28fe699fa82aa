#!/usr/bin/env bash
# Checks the chart: lint, its values schema, and renderings with every value against Kubernetes' own schemas
# (kubeconform) and good practice (kube-score).
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source "$(dirname "${BASH_SOURCE[0]}")/chart-tools.sh"
source e2e/images/names.sh

schema_folder=$(schemas)
digest=sha256:$(printf '0%.0s' {1..64})

# render <name> <helm values...>: renders the chart and checks the result against the schemas.
render() {
  local file=$work/$1.yaml
  shift
  helm template test "$chart" --namespace shortener-system "$@" >"$file"
  # Kubernetes' schemas do not contain the kinds of the Prometheus operator.
  kubeconform -strict -summary -skip ServiceMonitor,PrometheusRule \
    -schema-location "$schema_folder/{{.ResourceKind}}{{.KindSuffix}}.json" "$file"
}

# score <name> <helm values...>: renders the chart and scores the result too.
score() {
  local name=$1 file=$work/$1.yaml
  render "$@"
  # The images are pinned, so pulling them at every start would gain nothing.
  kube-score score --ignore-test container-image-pull-policy --output-format ci "$file" >"$work/$name.score" || {
    grep -E '^\[(CRITICAL|WARNING)\]' "$work/$name.score"
    die "kube-score rejects the rendering $name" "correct what it lists above"
  }
  printf 'rendering %s is accepted\n' "$name"
}

# refused <helm values...>: the values schema must refuse them.
refused() {
  local message
  if message=$(helm template test "$chart" "$@" 2>&1 >/dev/null); then
    die "the values schema accepts $*" "see values.schema.json of the chart"
  fi
  grep -q 'values.schema.json\|meet the specifications of the schema' <<<"$message" || die "$* is refused, but not by the values schema: $message" "see values.schema.json of the chart"
}

scope_is_cluster_wide_or_a_list() {
  score cluster-wide
  score namespaces --set 'watchNamespaces={red,blue}'
  kinds cluster-wide | grep -x ClusterRole >/dev/null || die "the cluster-wide rendering has no ClusterRole" "see templates/rbac.yaml of the chart"
  ! kinds namespaces | grep '^ClusterRole' >/dev/null || die "a rendering with watchNamespaces has a ClusterRole" "see templates/rbac.yaml and templates/user-roles.yaml of the chart"
  for namespace in red blue; do
    (($(grep -c "^  namespace: $namespace$" "$work/namespaces.yaml") == 2)) || die "the rendering with watchNamespaces lacks the Role or the RoleBinding of namespace $namespace" "see templates/rbac.yaml of the chart"
  done
  # A star alone is no text in YAML without quotes, and patterns of the resource definition have one in brackets.
  ! grep -n "\[[\"']\*[\"']\]\|^ *- [\"']\*[\"']$" "$work"/*.yaml || die "the rules above have a wildcard" "name the groups, resources and verbs in templates/rbac.yaml of the chart"
}

definition_is_optional() {
  score without-definitions --set crds.enabled=false
  kinds cluster-wide | grep -x CustomResourceDefinition >/dev/null || die "the default rendering lacks the resource definition" "see templates/crds.yaml of the chart"
  ! kinds without-definitions | grep -x CustomResourceDefinition >/dev/null || die "crds.enabled=false still renders the resource definition" "see templates/crds.yaml of the chart"
  grep -q 'helm.sh/resource-policy: keep' "$work/cluster-wide.yaml" || die "the resource definition lacks helm.sh/resource-policy: keep" "see crds.keep in templates/crds.yaml of the chart"
  ! helm template test "$chart" --set crds.keep=false | grep 'helm.sh/resource-policy' || die "crds.keep=false still renders helm.sh/resource-policy" "see templates/crds.yaml of the chart"
}

# Writes $work/values.yaml, which sets every value that is empty by default.
write_values() {
  cat >"$work/values.yaml" <<VALUES
replicaCount: 2
image: {tag: 1.2.3, digest: "$digest"}
images:
  app: r.example/app@$digest
  postgres: postgres:1@$digest
operatorClass: canary
gatewayAllowFrom: [{ipBlock: {cidr: 10.0.0.0/8}}]
telemetry: {otlpEndpoint: "http://collector.observe:4321", sampleRatio: 0.25}
networkPolicy: {restrictEgress: true, metricsFrom: [{namespaceSelector: {}}]}
metricsService: {serviceMonitor: {enabled: true, labels: {release: prometheus}}}
prometheusRule: {enabled: true, labels: {rules: prometheus}}
extraArgs: [--listen, "0.0.0.0:8080"]
extraEnv: [{name: EXTRA, value: "1"}, {name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}]
extraVolumes: [{name: authorities, configMap: {name: authorities}}]
extraVolumeMounts: [{name: authorities, mountPath: /etc/authorities, readOnly: true}]
extraObjects:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: "{{ .Release.Name }}-map", namespace: shortener-system}}
- |
  apiVersion: v1
  kind: ConfigMap
  metadata:
    name: {{ .Release.Name }}-text
    namespace: shortener-system
commonLabels: {team: links, app.kubernetes.io/name: not-ours}
podLabels: {tier: control}
podAnnotations: {note: a pod}
podSecurityContext: {fsGroup: 4711}
securityContext: {privileged: false}
updateStrategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 3}}
dnsPolicy: None
dnsConfig: {nameservers: [192.0.2.53], options: [{name: ndots, value: "2"}]}
nodeSelector: {disk: ssd}
tolerations: [{key: control, operator: Exists}]
affinity: {nodeAffinity: {}}
topologySpreadConstraints: [{maxSkew: 2, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]
priorityClassName: high
VALUES
}

every_value_takes_effect() {
  write_values
  jq '{images: .properties.images.properties | map_values("image:1")}' "$chart/values.schema.json" >"$work/images.json"
  score everything --values "$work/images.json" --values "$work/values.yaml"
  kinds everything | grep -x PodDisruptionBudget >/dev/null || die "the rendering with two replicas has no PodDisruptionBudget" "see the chart's templates"
  local line
  while read -r line; do holds everything "$line"; done <<LINES
image: "$(released operator | sed 's/:[^:]*$//'):1.2.3@$digest"
value: r.example/app@$digest
value: postgres:1@$digest
value: http://collector.observe:4321
value: "0.25"
{port: 4321, protocol: TCP}
name: QDRANT_IMAGE
name: OPERATOR_CLASS
name: test-shortener-operator-class-canary
release: prometheus
rules: prometheus
--listen
name: EXTRA
fieldPath: spec.nodeName
mountPath: /etc/authorities
name: 'test-map'
name: test-text
tier: control
note: a pod
fsGroup: 4711
runAsUser: 65532
privileged: false
maxSurge: 3
dnsPolicy: None
name: ndots
disk: ssd
key: control
nodeAffinity: {}
maxSkew: 2
priorityClassName: high
LINES
}

# Checks that a restricted operator still reaches the port at which the apps tell the state of their stores.
restricted_egress_reaches_the_apps() {
  local source=operator/core/src/plan/monitoring.rs port
  port=$(sed -n 's/^pub const INTERNAL_PORT: i32 = \([0-9]*\);$/\1/p' "$source")
  [[ -n $port ]] || die "$source has no line INTERNAL_PORT" "correct the pattern in this check"
  holds everything "{port: $port, protocol: TCP}"
}

# Checks that each image in the schema reaches the operator under a variable that it reads, and that none is missing.
images_are_those_of_the_operator() {
  diff <(sed -n 's/^ *- name: \([A-Z0-9_]*_IMAGE\)$/\1/p' "$work/everything.yaml" | sort) \
    <({ default_images | cut -d ' ' -f 1; printf '%s\n' APP_IMAGE WORKER_IMAGE; } | sort) \
    || die "the chart's image variables (<) are not those of operator/src/cli/settings/images.rs (>)" "see images in values.yaml and values.schema.json"
}

# Every object of the chart itself (the ConfigMaps are extraObjects) and the operator's pods have the labels. A
# selector must not have them, because it could not be changed.
common_labels_are_everywhere_but_in_selectors() {
  local without objects labels
  without=$(awk '
    function report() { if (kind != "" && kind != "ConfigMap" && !labelled) print kind }
    /^---/ { report(); kind = ""; labelled = 0 }
    /^kind: / { kind = $2 }
    /^    team: links$/ { labelled = 1 }
    END { report() }
  ' "$work/everything.yaml")
  [[ -z $without ]] || die "these kinds lack commonLabels: $without" "see the labels in the chart's templates"
  objects=$(kinds everything | grep -cvx ConfigMap)
  labels=$(grep -c '^ *team: links$' "$work/everything.yaml")
  ((labels == objects + 1)) || die "commonLabels occurs $labels times for $objects objects and one pod template" "remove it from the selectors, which cannot be changed"
  ! grep -q not-ours "$work/everything.yaml" || die "commonLabels replaced one of the chart's own labels" "see the labels in the chart's templates"
}

# kube-score would require a numeric user.
openshift_chooses_the_user() {
  render openshift --set podSecurityContext.runAsUser=null --set podSecurityContext.runAsGroup=null
  ! grep 'runAsUser\|runAsGroup' <(sed '/^kind: CustomResourceDefinition/,/^---/d' "$work/openshift.yaml") \
    || die "runAsUser or runAsGroup is rendered although podSecurityContext sets both to null" "see templates/deployment.yaml of the chart"
  holds openshift 'runAsNonRoot: true'
}

spread_can_be_left_to_the_cluster() {
  score no-spread --set-json 'topologySpreadConstraints=[]'
  holds cluster-wide 'topologyKey: kubernetes.io/hostname'
  ! grep -q '^      topologySpreadConstraints' "$work/no-spread.yaml" || die "topologySpreadConstraints=[] still renders constraints" "see templates/deployment.yaml of the chart"
}

# The same rule as in operator/src/cli/settings/registry.rs.
registry_goes_in_front_of_every_default_image() {
  local case original copy
  score mirror --set global.imageRegistry=mirror.example:5000/hub --set images.qdrant=qdrant/qdrant:1
  holds mirror "value: mirror.example:5000/hub"
  holds mirror "value: qdrant/qdrant:1"
  holds mirror "image: \"mirror.example:5000/hub/$(released operator | sed 's|^[^/]*/||')\""
  holds mirror "image: \"mirror.example:5000/hub/library/$(default_image GATEWAY_IMAGE)\""
  for case in postgres=library/postgres docker.io/postgres=library/postgres grafana/lgtm=grafana/lgtm \
    ghcr.io/a/b=a/b ghcr.io/b=b localhost/a/b=a/b r.example:80/a=a; do
    original=${case%=*} copy=${case#*=}
    helm template test "$chart" --set global.imageRegistry=m.example --set "image.repository=$original" \
      --set "image.digest=$digest" --show-only templates/deployment.yaml \
      | grep -xF "        image: \"m.example/$copy:$version@$digest\"" >/dev/null || die "with global.imageRegistry=m.example, $original does not become m.example/$copy" "see shortener-operator.copy in templates/_helpers.tpl of the chart"
  done
}

variables_are_named_once() {
  local message name
  for name in RUST_LOG POD_NAME; do
    if message=$(helm template test "$chart" --set "extraEnv[0].name=$name" 2>&1); then die "the chart accepts $name in extraEnv, although it sets $name itself" "see extraEnv in the chart's templates"; fi
    grep -q "extraEnv: $name is already set" <<<"$message" || die "the error for $name in extraEnv does not name it: $message" "see extraEnv in the chart's templates"
  done
}

schema_refuses() {
  refused --set replicas=2
  refused --set image.pullPolicy=Sometimes
  refused --set image.digest=latest
  refused --set-string replicaCount=two
  refused --set 'watchNamespaces={Not_A_Name}'
  refused --set images.redis=redis:8
  refused --set 'images.postgres=postgres 18'
  refused --set metricsService.port=70000
  refused --set-json 'gatewayAllowFrom=[{"host":"example.com"}]'
  refused --set operatorClass=Canary
  refused --set global.imageRegistry=https://mirror.example
  refused --set global.imageRegistry=mirror.example/
  refused --set global.imageRegistry=mirror
  refused --set extraArgs=--help
  refused --set extraEnv.RUST_LOG=debug
  refused --set-json 'extraEnv=[{"name":"A","valeu":"b"}]'
  refused --set-json 'extraVolumes=[{"emptyDir":{}}]'
  refused --set-json 'extraObjects=[1]'
  refused --set-json 'commonLabels={"team":1}'
  refused --set commonLabels.team=not/a/value
  refused --set-json 'podSecurityContext=[]'
  refused --set updateStrategy.type=Sometimes
  refused --set updateStrategy.maxSurge=1
  refused --set dnsPolicy=Sometimes
  refused --set 'dnsConfig.nameserver={192.0.2.53}'
  refused --set-json 'topologySpreadConstraints=[{"maxSkew":1}]'
  refused --set prometheusRule.enable=true
  refused --set prometheusRule.runbookBaseUrl=docs/runbooks.md
  printf 'the values schema refuses what it should\n'
}

helm lint --strict "$chart"
scope_is_cluster_wide_or_a_list
definition_is_optional
every_value_takes_effect
restricted_egress_reaches_the_apps
images_are_those_of_the_operator
common_labels_are_everywhere_but_in_selectors
openshift_chooses_the_user
spread_can_be_left_to_the_cluster
registry_goes_in_front_of_every_default_image
variables_are_named_once
schema_refuses
