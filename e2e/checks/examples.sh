#!/usr/bin/env bash
# Checks the examples with kubeconform, by schemas made from the definitions of their kinds, and their values with the chart.
#
#   examples.sh                        checks
#   examples.sh definitions <folder>   writes the definitions, for e2e/tests/serial/examples.rs
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source "$repo/e2e/checks/examples-lib.sh"
if [[ ${1:-} == definitions ]]; then
  definitions "$2"
  exit
fi
source "$repo/e2e/checks/chart-tools.sh"

# The tests in e2e/tests/offline/examples.rs fail for a file of another kind.
mapfile -t files < <(git ls-files --cached --others --exclude-standard 'examples/*.yaml' | grep -v ^examples/kustomize/)
manifests=() values=()
for file in "${files[@]}"; do
  if [[ $file == *-values.yaml ]]; then values+=("$file"); else manifests+=("$file"); fi
done
folder=$work/schemas
mkdir "$folder"
definitions "$work/definitions"
as_json "$work"/definitions/* crds/*.yaml | jq -r -f "$examples_folder/definitions.jq" \
  | awk -F '\t' -v folder="$folder" '{ file = folder "/" $1; print $2 >file; close(file) }'
own_schemas="$(schemas)/{{.ResourceKind}}{{.KindSuffix}}.json"
kubeconform -strict -summary -schema-location "$own_schemas" \
  -schema-location "$folder/{{.ResourceKind}}{{.KindSuffix}}.json" "${manifests[@]}"

# The chart, whose schema refuses misspelt values, must accept every set of values, also those of Argo CD and Flux.
as_json "${manifests[@]}" | jq -c '(if .kind == "HelmRelease" then .spec.values else .spec.source?.helm?.valuesObject? end) | select(. != null)' \
  | split --lines 1 - "$work/given-"
for file in "${values[@]}" "$work"/given-*; do
  helm template shortener-operator "$chart" --namespace shortener-system --values "$file" >"$work/rendered-${file##*/}.yaml" \
    || die "the chart refuses the values in ${file#"$work"/}" "correct them as helm says above"
done
# Kubernetes' schemas do not contain that kind.
kubeconform -strict -summary -skip ServiceMonitor -schema-location "$own_schemas" "$work"/rendered-*
say "${#manifests[@]} examples match their schemas, and the chart accepts their values"
