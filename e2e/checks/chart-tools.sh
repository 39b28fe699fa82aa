# shellcheck shell=bash
# Sourced after lib.sh: makes sure of helm, kubeconform and kube-score and of the schemas for kubeconform, and
# defines the functions that the checks of the chart and of the examples share.

chart=charts/shortener-operator
"$cluster_dir/tools.sh" checks
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Prints a folder of JSON schemas. kubeconform would download them; the Kubernetes module contains the same as OpenAPI.
schemas() {
  local version target module document
  version=$(sed -n 's|^\t*k8s.io/kubernetes \(v[^ ]*\).*|\1|p' "$closed_dir/modules/kubernetes/go.mod" | sed -n 1p)
  target=$cache/schemas/$version-$(content_key e2e/checks/schemas.jq e2e/checks/chart-tools.sh)
  if [[ ! -d $target ]]; then
    module=$(module_dir "$closed_dir/modules/kubernetes" k8s.io/kubernetes)
    rm -rf "$cache/schemas"
    mkdir -p "$target.part"
    for document in api__v1 apis__{admissionregistration.k8s.io,apps,batch,networking.k8s.io,policy,rbac.authorization.k8s.io,apiextensions.k8s.io}__v1; do
      jq -r -f e2e/checks/schemas.jq "$module/api/openapi-spec/v3/${document}_openapi.json" \
        | awk -F '\t' -v folder="$target.part" '{ file = folder "/" $1; print $2 >file; close(file) }'
    done
    mv "$target.part" "$target"
  fi
  printf '%s\n' "$target"
}
