{{- define "shortener-operator.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "shortener-operator.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" }}
{{- else if contains (include "shortener-operator.name" .) .Release.Name }}
{{- .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "shortener-operator.name" .) | trunc 50 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{/* The name of the roles outside the release's namespace, where another release of the same name may have its own. */}}
{{- define "shortener-operator.roleName" -}}
{{- with .Values.operatorClass }}
{{- printf "%s-class-%s" (include "shortener-operator.fullname" $) . }}
{{- else }}
{{- include "shortener-operator.fullname" . }}
{{- end }}
{{- end }}

{{- define "shortener-operator.selectorLabels" -}}
app.kubernetes.io/name: {{ include "shortener-operator.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "shortener-operator.ownLabels" -}}
{{ include "shortener-operator.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{/* Labels of every object. In each merge of labels the chart's own come first, so they take precedence. */}}
{{- define "shortener-operator.labels" -}}
{{- merge (include "shortener-operator.ownLabels" . | fromYaml) .Values.commonLabels | toYaml }}
{{- end }}

{{- define "shortener-operator.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "shortener-operator.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- required "serviceAccount.name is empty while serviceAccount.create is false: name an existing ServiceAccount, or set serviceAccount.create to true" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{/* The name of an image, given as {root, image}. If global.imageRegistry is set, it replaces the registry of the image
and is followed by the full path. The operator does the same with its default images (settings/registry.rs). */}}
{{- define "shortener-operator.copy" -}}
{{- $registry := (.root.Values.global).imageRegistry }}
{{- if $registry }}
{{- $host := regexFind "^(localhost|[^/]*[.:][^/]*)/" .image }}
{{- $path := trimPrefix $host .image }}
{{- if and (has $host (list "" "docker.io/")) (not (contains "/" $path)) }}
{{- $path = printf "library/%s" $path }}
{{- end }}
{{- printf "%s/%s" $registry $path }}
{{- else }}
{{- .image }}
{{- end }}
{{- end }}

{{- define "shortener-operator.image" -}}
{{- $image := printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) }}
{{- with .Values.image.digest }}
{{- $image = printf "%s@%s" $image . }}
{{- end }}
{{- include "shortener-operator.copy" (dict "root" . "image" $image) }}
{{- end }}

{{/* The default is the operator's default image of the gateway; a check keeps them equal. */}}
{{- define "shortener-operator.testImage" -}}
{{- $default := include "shortener-operator.copy" (dict "root" . "image" "nginx:1.30.6") }}
{{- coalesce .Values.test.image (.Values.images).gateway $default }}
{{- end }}

{{- define "shortener-operator.env" -}}
- name: POD_NAME
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
- name: POD_NAMESPACE
  valueFrom:
    fieldRef:
      fieldPath: metadata.namespace
- name: OPERATOR_SELECTOR
  value: {{ include "shortener-operator.selector" . | quote }}
- name: LEASE_NAME
  value: {{ include "shortener-operator.fullname" . | quote }}
- name: LEASE_DURATION_SECONDS
  value: {{ .Values.leaderElection.leaseDurationSeconds | quote }}
- name: MAX_CONCURRENT_RECONCILES
  value: {{ .Values.maxConcurrentReconciles | quote }}
- name: RUST_LOG
  value: {{ .Values.logLevel | quote }}
{{- /* The allocator leaves most of a huge page unused. */}}
- name: MIMALLOC_ALLOW_THP
  value: "0"
{{- with .Values.telemetry.otlpEndpoint }}
- name: OTEL_EXPORTER_OTLP_ENDPOINT
  value: {{ . | quote }}
- name: OTEL_TRACES_SAMPLER_ARG
  value: {{ $.Values.telemetry.sampleRatio | quote }}
{{- end }}
{{- with .Values.watchNamespaces }}
- name: WATCH_NAMESPACES
  value: {{ join "," . | quote }}
{{- end }}
{{- with .Values.operatorClass }}
- name: OPERATOR_CLASS
  value: {{ . | quote }}
{{- end }}
{{- if ne .Values.podTemplatePolicy "Restricted" }}
- name: POD_TEMPLATE_POLICY
  value: {{ .Values.podTemplatePolicy }}
{{- end }}
{{- with .Values.probeHosts }}
- name: PROBE_HOSTS
  value: {{ join "," . | quote }}
{{- end }}
{{- with .Values.gatewayAllowFrom }}
- name: GATEWAY_ALLOW_FROM
  value: {{ toJson . | quote }}
{{- end }}
{{- with (.Values.global).imageRegistry }}
- name: IMAGE_REGISTRY
  value: {{ . | quote }}
{{- end }}
{{- range $component, $image := .Values.images }}
{{- with $image }}
- name: {{ regexReplaceAll "([a-z])([0-9])" $component "${1}_${2}" | upper }}_IMAGE
  value: {{ . | quote }}
{{- end }}
{{- end }}
{{- end }}

{{/* The port of telemetry.otlpEndpoint. */}}
{{- define "shortener-operator.otlpPort" -}}
{{- $url := urlParse .Values.telemetry.otlpEndpoint }}
{{- $standard := eq $url.scheme "https" | ternary "443" "80" }}
{{- regexFind ":[0-9]+$" $url.host | trimPrefix ":" | default $standard }}
{{- end }}

{{/* The chart's variables, then extraEnv. The API server rejects two variables of one name, but does not name the
chart's value to use instead. */}}
{{- define "shortener-operator.allEnv" -}}
{{- $own := include "shortener-operator.env" . | fromYamlArray }}
{{- range $extra := .Values.extraEnv }}
{{- range $own }}
{{- if eq .name $extra.name }}
{{- fail (printf "extraEnv: %s is already set: use the chart's own value for it, or list it once" .name) }}
{{- end }}
{{- end }}
{{- $own = append $own $extra }}
{{- end }}
{{- toYaml $own }}
{{- end }}

{{/* Topology spread constraints. One without a labelSelector counts the operator's pods. */}}
{{- define "shortener-operator.spread" -}}
{{- $own := dict "labelSelector" (dict "matchLabels" (include "shortener-operator.selectorLabels" . | fromYaml)) }}
{{- $constraints := list }}
{{- range .Values.topologySpreadConstraints }}
{{- $constraints = append $constraints (hasKey . "labelSelector" | ternary . (merge (deepCopy .) $own)) }}
{{- end }}
{{- with $constraints }}
{{- toYaml . }}
{{- end }}
{{- end }}

{{/* The selector labels as `k=v,k=v`. In the stacks' NetworkPolicies, the operator selects its own pods by them. */}}
{{- define "shortener-operator.selector" -}}
{{- $pairs := list }}
{{- range $key, $value := include "shortener-operator.selectorLabels" . | fromYaml }}
{{- $pairs = append $pairs (printf "%s=%s" $key $value) }}
{{- end }}
{{- join "," $pairs }}
{{- end }}

{{- define "shortener-operator.subject" -}}
- kind: ServiceAccount
  name: {{ include "shortener-operator.serviceAccountName" . }}
  namespace: {{ .Release.Namespace }}
{{- end }}

{{/* The operator's permissions in a watched namespace, the same in a ClusterRole and in a Role. */}}
{{- define "shortener-operator.rules" -}}
- apiGroups: [shortener.dev]
  resources: [shortenerstacks]
  verbs: [get, list, watch]
- apiGroups: [shortener.dev]
  resources: [shortenerstacks/status]
  verbs: [get, patch]
# Owner references that block deletion need this if OwnerReferencesPermissionEnforcement is on.
- apiGroups: [shortener.dev]
  resources: [shortenerstacks/finalizers]
  verbs: [update]
# A ShortLink gets a finalizer, which goes when its link is released. The spec of a ShortLink stays as it is.
- apiGroups: [shortener.dev]
  resources: [shortlinks]
  verbs: [list, watch, patch]
- apiGroups: [shortener.dev]
  resources: [shortlinks/status]
  verbs: [patch]
# Drills are created by others. The operator writes what they show.
- apiGroups: [shortener.dev]
  resources: [shortenerdrills]
  verbs: [list, watch]
- apiGroups: [shortener.dev]
  resources: [shortenerdrills/status]
  verbs: [patch]
- apiGroups: [apps]
  resources: [deployments, statefulsets]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [services, configmaps, serviceaccounts]
  verbs: [get, list, watch, create, patch, delete]
# Data and credentials, which the operator never deletes.
- apiGroups: [""]
  resources: [persistentvolumeclaims, secrets]
  verbs: [get, list, watch, create, patch]
- apiGroups: [networking.k8s.io]
  resources: [ingresses, networkpolicies]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [batch]
  resources: [cronjobs]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [autoscaling]
  resources: [horizontalpodautoscalers]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, list, watch, create, patch, delete]
# The kinds of CloudNativePG, used if the cluster has them. Nothing deletes a Cluster.
- apiGroups: [postgresql.cnpg.io]
  resources: [clusters]
  verbs: [get, list, watch, create, patch]
- apiGroups: [postgresql.cnpg.io]
  resources: [poolers]
  verbs: [get, list, watch, create, patch, delete]
# The kind of RabbitMQ's operator, used if the cluster has it. Nothing deletes one.
- apiGroups: [rabbitmq.com]
  resources: [rabbitmqclusters]
  verbs: [get, list, watch, create, patch]
# Kinds of the Gateway API, used if the cluster has them. Gateways belong to others.
- apiGroups: [gateway.networking.k8s.io]
  resources: [httproutes, referencegrants]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [gateway.networking.k8s.io]
  resources: [gateways]
  verbs: [list, watch]
# Kinds of the Prometheus operator, used if the cluster has them.
- apiGroups: [monitoring.coreos.com]
  resources: [servicemonitors, prometheusrules]
  verbs: [get, list, watch, create, patch, delete]
# The annotation that says which workers are removed first. Others create and delete pods.
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch, patch]
# Events about stacks are written. Those about a StatefulSet that lacks pods say why.
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [list, create, patch]
{{- end }}

{{/* A CEL list of the fields of a stack (the name of a variable) with which its editor chooses programs, Secrets and the
places of data: for each field a list with its value, or an empty one. */}}
{{- define "shortener-operator.podFields" -}}
{{- $components := list "app" "gateway" "workers" "database.managed" "cache.managed" "queue.managed" "vector.managed" }}
{{- $components = concat $components (list "observability.collector.managed" "observability.backend.managed") }}
{{- $fields := list "gateway.auth.secretRef" "gateway.endToEndProbe.keySecretRef" "database.backup" "database.restoreFrom" }}
{{- $fields = concat $fields (list "links.webhooks" "gateway.auth.proxy") }}
{{- $fields = concat $fields (list "database.cloudNativePG.template" "queue.rabbitmqCluster.template") }}
{{- range list "database" "cache" "queue" "vector" "observability.collector" "observability.backend" }}
{{- $fields = append $fields (printf "%s.external" .) }}
{{- end }}
{{- range $components }}
{{- $fields = concat $fields (list (printf "%s.image" .) (printf "%s.podTemplate" .)) }}
{{- end }}
{{- $values := list }}
{{- range $field := $fields }}
{{- $path := printf "%s.spec" $ }}
{{- $exists := list }}
{{- range splitList "." $field }}
{{- $path = printf "%s.%s" $path . }}
{{- $exists = append $exists (printf "has(%s)" $path) }}
{{- end }}
{{- $values = append $values (printf "%s ? [%s] : []" (join " && " $exists) $path) }}
{{- end }}
{{- printf "[%s]" (join ", " $values) }}
{{- end }}

{{/* Labels that differ from the operator's, so that the Services send no requests to the test pod. */}}
{{- define "shortener-operator.testLabels" -}}
app.kubernetes.io/name: {{ include "shortener-operator.name" . }}-test
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
