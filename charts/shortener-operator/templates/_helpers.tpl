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

{{- define "shortener-operator.selectorLabels" -}}
app.kubernetes.io/name: {{ include "shortener-operator.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "shortener-operator.labels" -}}
{{ include "shortener-operator.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "shortener-operator.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "shortener-operator.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- required "serviceAccount.name must name an existing ServiceAccount when serviceAccount.create is false" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "shortener-operator.image" -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) }}
{{- end }}

{{/* The operator names its own pods in the NetworkPolicies of the stacks: the same labels as `k=v,k=v`. */}}
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

{{/* What the operator may do in a namespace that it watches; the same whether by ClusterRole or by Role. */}}
{{- define "shortener-operator.rules" -}}
- apiGroups: [shortener.dev]
  resources: [shortenerstacks]
  verbs: [get, list, watch, patch]
- apiGroups: [shortener.dev]
  resources: [shortenerstacks/status]
  verbs: [get, patch]
# Owner references that block deletion need it where OwnerReferencesPermissionEnforcement is on.
- apiGroups: [shortener.dev]
  resources: [shortenerstacks/finalizers]
  verbs: [update]
- apiGroups: [apps]
  resources: [deployments, statefulsets]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [services, configmaps, serviceaccounts]
  verbs: [get, list, watch, create, patch, delete]
# Data and credentials: never deleted by the operator.
- apiGroups: [""]
  resources: [persistentvolumeclaims, secrets]
  verbs: [get, list, watch, create, patch]
- apiGroups: [networking.k8s.io]
  resources: [ingresses, networkpolicies]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, list, watch, create, patch, delete]
# Kinds of the Prometheus operator, used where the cluster has them.
- apiGroups: [monitoring.coreos.com]
  resources: [servicemonitors, prometheusrules]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- end }}

{{/* Other labels than the operator's, or the Services would send requests to the test pod. */}}
{{- define "shortener-operator.testLabels" -}}
app.kubernetes.io/name: {{ include "shortener-operator.name" . }}-test
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
