#!/usr/bin/env bash
# Checks that each example is accepted with the definitions of its kinds, and that no part of them is left unchecked.
#
#   examples.sh schemas    without a cluster: kubeconform with schemas made from the definitions, values against the chart
#   examples.sh cluster    by the API server that kubectl reaches: the definitions are installed, every example and every
#                          overlay is applied as a dry run, and what was installed is removed again
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source "$(dirname "${BASH_SOURCE[0]}")/chart-tools.sh"
source "$(dirname "${BASH_SOURCE[0]}")/examples-lib.sh"

work=${work:-$(mktemp -d)}
trap 'rm -rf "$work"' EXIT
examples manifest >"$work/manifests"
examples values >"$work/values"
examples overlay >"$work/overlays"
mapfile -t manifests <"$work/manifests"
mapfile -t values <"$work/values"
mapfile -t overlays <"$work/overlays"
((${#manifests[@]} && ${#values[@]} && ${#overlays[@]})) || die "examples/ lacks manifests, values or overlays" "see the function examples in e2e/checks/examples-lib.sh"

# The page must name every example or its folder, and every image must be one of the operator's defaults.
facts() {
  local path image defaults failed=0
  defaults=$(default_images | cut -d ' ' -f 2)
  for path in "${manifests[@]}" "${values[@]}" "${overlays[@]}"; do
    path=${path#examples/}
    grep -qF -e "]($path)" -e "](${path%/*})" examples/README.md || {
      say "error: examples/README.md does not link to $path"
      failed=1
    }
  done
  while read -r image; do
    grep -qxF "$image" <<<"$defaults" || {
      say "error: an example uses the image $image, which is not a default in operator/src/cli/settings/images.rs"
      failed=1
    }
  done < <(sed -n 's/^ *image: \([^ ]*\).*/\1/p' "${manifests[@]}")
  ((failed == 0)) || die "examples/ contradicts its README.md or operator/src/cli/settings/images.rs" "correct what the errors above name"
}

# A NetworkPolicy that opens a port of the stack's pods must use the operator's labels, and a
# port of the operator's own policy.
policies() {
  local component port golden number=0
  while read -r component port; do
    golden=operator/core/snapshots/network-policy-$component.snap
    [[ -f $golden ]] && grep -qx " *- port: $port" "$golden" \
      || die "an example's NetworkPolicy opens port $port of $component, which the operator's own NetworkPolicy does not" "compare with $golden and the labels in operator/core/src/model/metadata.rs"
    number=$((number + 1))
  done < <(jq -r 'select(.kind == "NetworkPolicy") | .spec as $spec
    | ($spec.podSelector.matchLabels
       | if keys == ["app.kubernetes.io/component", "app.kubernetes.io/instance", "app.kubernetes.io/name"]
            and .["app.kubernetes.io/name"] == "shortener" then .["app.kubernetes.io/component"] else "other-labels" end)
      + " " + ($spec.ingress[].ports[].port | tostring)' "$work/documents.json")
  ((number > 0)) || die "no example has a NetworkPolicy" "see the manifests in examples/"
}

# The limits of an external broker must be those that docs/queue.md tells users to set.
limits() {
  diff <(jq -cSR 'capture("^rabbitmqctl set_policy (?<name>[^ ]+) .(?<pattern>[^ ]+). --apply-to (?<applyTo>[^ ]+) .(?<definition>\\{.*\\}).$")
                  | .definition |= fromjson' docs/queue.md) \
    <(jq -cS 'select(.kind == "Policy") | .spec | {name, pattern, applyTo, definition}' "$work/documents.json" | grep .) \
    || die "docs/queue.md (<) and the examples (>) set different policies of an external broker" "make both the same"
}

# The chart, whose schema refuses misspelt values, must accept every set of values.
with_the_chart() {
  local file line number=0
  chart_values "$work/documents.json" >"$work/chart-values"
  [[ -s $work/chart-values ]] || die "neither the example for Argo CD nor the one for Flux has values for the chart" "see chart_values in e2e/checks/examples-lib.sh"
  while IFS= read -r line; do
    number=$((number + 1))
    printf '%s\n' "$line" >"$work/given-$number.json"
  done <"$work/chart-values"
  for file in "${values[@]}" "$work"/given-*.json; do
    helm template shortener-operator "$chart" --namespace shortener-system --values "$file" >"$work/rendered-${file##*/}.yaml" \
      || die "the chart refuses the values in ${file#"$work"/}" "correct them as helm says above"
  done
  # Pruning the definition would delete every stack.
  for line in 'helm.sh/resource-policy: keep' 'argocd.argoproj.io/sync-options: Prune=false' 'kustomize.toolkit.fluxcd.io/prune: disabled'; do
    grep -qx " *$line" "$work/rendered-given-1.json.yaml" || die "the resource definition lacks the annotation $line" "see the chart's templates/crds.yaml"
  done
}

schemas_mode() {
  local folder=$work/schemas
  definitions "$work/definitions"
  mkdir "$folder"
  as_json "$work"/definitions/* crds/shortenerstack.yaml | jq -r -f "$examples_folder/definitions.jq" \
    | awk -F '\t' -v folder="$folder" '{ file = folder "/" $1; print $2 >file; close(file) }'
  kubeconform -strict -summary -schema-location "$(schemas)/{{.ResourceKind}}{{.KindSuffix}}.json" \
    -schema-location "$folder/{{.ResourceKind}}{{.KindSuffix}}.json" "${manifests[@]}"
  with_the_chart
  # Kubernetes' schemas do not contain that kind.
  kubeconform -strict -summary -skip ServiceMonitor -schema-location "$(schemas)/{{.ResourceKind}}{{.KindSuffix}}.json" "$work"/rendered-*
  say "${#manifests[@]} examples match their schemas, and the chart accepts $((${#values[@]} + $(wc -l <"$work/chart-values"))) sets of values"
}

# The objects to remove at the end.
created=()

# namespace <name>: creates it if it does not exist.
namespace() {
  kubectl get namespace "$1" >/dev/null 2>&1 || {
    kubectl create namespace "$1" >/dev/null
    created+=("namespace/$1")
  }
}

remove_created() {
  local status=$?
  trap - EXIT
  if ((${#created[@]})); then kubectl delete --ignore-not-found --wait --timeout=2m "${created[@]}" >/dev/null || status=1; fi
  rm -rf "$work"
  exit "$status"
}

# try <what> <file>: runs `kubectl apply --server-side` as a dry run.
try() {
  kubectl apply --server-side --dry-run=server --validate=strict --filename "$2" >"$work/answer" 2>&1 \
    || { cat "$work/answer" >&2; die "the API server refuses $1" "correct what its answer above names"; }
  # A warning becomes an error in a later version.
  ! grep -i '^warning' "$work/answer" >&2 || die "the API server warns about $1" "correct what its answer above names"
}

cluster_mode() {
  local file name
  trap remove_created EXIT
  definitions "$work/definitions"
  for file in "$work"/definitions/*; do
    name=$(as_json "$file" | jq -r '"customresourcedefinition/" + .metadata.name')
    ! kubectl get "$name" >/dev/null 2>&1 || die "the cluster already has $name, which this check would remove at its end" "run it on a cluster without $name"
    created+=("$name")
    kubectl apply --server-side --filename "$file" >/dev/null
  done
  kubectl wait --for=condition=Established --timeout=1m "${created[@]}" >/dev/null

  # The user's current namespace must not matter, and a dry run does not create a namespace for the objects after it.
  kubectl config view --raw --minify --flatten >"$work/kubeconfig"
  export KUBECONFIG=$work/kubeconfig
  for name in examples $(jq -r '.metadata.namespace // empty' "$work/documents.json" | sort -u); do
    namespace "$name"
  done
  kubectl config set-context --current --namespace=examples >/dev/null
  for file in "${manifests[@]}"; do try "$file" "$file"; done
  for name in "${overlays[@]}"; do overlay "$name"; done
  say "the API server accepts ${#manifests[@]} examples and ${#overlays[@]} overlays, and the chart accepts their values"
}

# overlay <folder>: also checks that a stack names a generated Secret by its generated name.
overlay() {
  local file=$work/overlay.yaml secret namespace
  kubectl kustomize "$1" >"$file"
  as_json "$file" >"$work/overlay.json"
  for namespace in $(jq -r '.metadata.namespace // empty' "$work/overlay.json" | sort -u); do namespace "$namespace"; done
  try "the overlay $1" "$file"
  for secret in $(jq -r 'select(.kind == "Secret") | .metadata.name' "$work/overlay.json"); do
    jq -se --arg name "$secret" 'any(.[] | select(.kind == "ShortenerStack") | .. | strings; . == $name)' "$work/overlay.json" >/dev/null \
      || die "no stack of the overlay $1 names the Secret $secret, which the overlay generates" "add the field to examples/kustomize/base/secret-references.yaml"
  done
}

as_json "${manifests[@]}" >"$work/documents.json"
facts
policies
limits
case "${1:-}" in
  schemas) schemas_mode ;;
  cluster)
    with_the_chart
    cluster_mode
    ;;
  *) die "unknown argument: ${1:-none}" "run it as: examples.sh schemas|cluster" ;;
esac
