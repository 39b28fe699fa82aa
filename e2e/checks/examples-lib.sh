# shellcheck shell=bash
# Sourced after chart-tools.sh: lists the examples, reads each of them, and provides the
# definitions of other projects' kinds.

examples_folder=e2e/examples
# The modules and their files with the definitions that the examples use, and this project's own definition.
definition_files=(
  "github.com/argoproj/argo-cd/v3 manifests/crds/application-crd.yaml"
  "github.com/cert-manager/cert-manager deploy/crds/cert-manager.io_certificates.yaml"
  "github.com/cert-manager/cert-manager deploy/crds/cert-manager.io_issuers.yaml"
  "github.com/cloudnative-pg/cloudnative-pg config/crd/bases/postgresql.cnpg.io_clusters.yaml"
  "github.com/external-secrets/external-secrets config/crds/bases/external-secrets.io_externalsecrets.yaml"
  "github.com/external-secrets/external-secrets config/crds/bases/external-secrets.io_secretstores.yaml"
  "github.com/fluxcd/helm-controller config/crd/bases/helm.toolkit.fluxcd.io_helmreleases.yaml"
  "github.com/fluxcd/kustomize-controller config/crd/bases/kustomize.toolkit.fluxcd.io_kustomizations.yaml"
  "github.com/fluxcd/source-controller config/crd/bases/source.toolkit.fluxcd.io_gitrepositories.yaml"
  "github.com/fluxcd/source-controller config/crd/bases/source.toolkit.fluxcd.io_ocirepositories.yaml"
  "github.com/kedacore/keda/v2 config/crd/bases/keda.sh_scaledobjects.yaml"
  "github.com/kedacore/keda/v2 config/crd/bases/keda.sh_triggerauthentications.yaml"
  "github.com/rabbitmq/cluster-operator/v2 config/crd/bases/rabbitmq.com_rabbitmqclusters.yaml"
  "github.com/rabbitmq/messaging-topology-operator config/crd/bases/rabbitmq.com_policies.yaml"
)

# definitions <folder>: copies these files into it, numbered.
definitions() {
  local folder=$1 entry module file number=10
  mkdir -p "$folder"
  for entry in "${definition_files[@]}"; do
    read -r module file <<<"$entry"
    module=$(module_dir "$examples_folder/definitions" "$module")
    [[ -f $module/$file ]] || die "the module in $module has no file $file" "find its new path and correct definition_files in e2e/checks/examples-lib.sh"
    cp --no-preserve=mode "$module/$file" "$folder/$((number++))-${file##*/}"
  done
}

# as_json <file of YAML>...: prints every document, one per line.
as_json() {
  local chart
  chart=$(mktemp -d)
  cp -r "$examples_folder/documents/." "$chart"
  mkdir "$chart/documents"
  cp --no-preserve=mode --backup=numbered "$@" "$chart/documents"
  helm template documents "$chart" | grep '^{' || die "these files have no YAML document: $*" "see the error of helm above"
  rm -rf "$chart"
}

# examples <kind of example>: prints the files (`manifest`, `values`) or folders (`overlay`) of that kind, one per
# line. A file without a kind fails the check, because it would stay unchecked.
examples() {
  local wanted=$1 file folder
  git ls-files --cached --others --exclude-standard examples | while IFS= read -r file; do
    folder=${file%/*}
    case $file in
      # Files for a CI system have checks of their own, for workflows and for scripts.
      *.md | examples/ci/*.yml | examples/ci/*.sh) continue ;;
      */kustomization.yaml) if [[ $wanted == overlay ]]; then printf '%s\n' "$folder"; fi ;;
      *-values.yaml) if [[ $wanted == values ]]; then printf '%s\n' "$file"; fi ;;
      *.yaml)
        if [[ ! -f $folder/kustomization.yaml ]]; then
          if [[ $wanted == manifest ]]; then printf '%s\n' "$file"; fi
        elif ! grep -q "[ -]${file##*/}\$" "$folder/kustomization.yaml"; then
          die "$folder/kustomization.yaml does not name ${file##*/}" "name it there, or remove $file"
        fi
        ;;
      *) die "no check reads $file" "add its kind to the function examples in e2e/checks/examples-lib.sh" ;;
    esac
  done
}

# chart_values <file of JSON documents>: prints the values that Argo CD and Flux would give the
# chart, one JSON object per line.
chart_values() {
  jq -c 'if .kind == "HelmRelease" then .spec.values elif .kind == "Application" then .spec.source.helm.valuesObject else empty end
         | select(. != null)' "$1"
}
