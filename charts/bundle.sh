#!/usr/bin/env bash
# Writes dist/bundle, both charts as one bundle for the Operator Lifecycle Manager, with the Dockerfile of its image.
#
#   charts/bundle.sh [folder] [chart of the definition] [chart of the operator]     a chart is a folder or a package
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../e2e/checks/lib.sh"
"$cluster_dir/tools.sh" helm
"$cluster_dir/tools.sh" gojq

folder=${1:-dist/bundle}
definition=${2:-charts/shortener-definition}
operator=${3:-charts/shortener-operator}
bundle=$(
  {
    helm template shortener-definition "$definition"
    helm template shortener-operator "$operator" --no-hooks --values charts/bundle/values.yaml
    printf -- '---\n'
    helm show chart "$operator"
    helm show chart "$definition" \
      | gojq --yaml-input --raw-output '.annotations | ("artifacthub.io/crds", "artifacthub.io/crdsExamples") as $list | "---", .[$list]'
  } | gojq --yaml-input --slurp --from-file charts/bundle/bundle.jq --argjson time "${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}" \
    --arg images "$(default_images)" --rawfile icon workloads/app/console/icon.svg
)
rm -rf "$folder"
mkdir -p "$folder"/{manifests,metadata}
gojq --raw-output 'keys[]' <<<"$bundle" | while IFS= read -r path; do
  gojq --yaml-output --arg path "$path" '.[$path]' <<<"$bundle" >"$folder/$path"
done
gojq --raw-output '"FROM scratch", (.["metadata/annotations.yaml"].annotations | to_entries[] | "LABEL \(.key)=\(.value)"),
  ("manifests", "metadata" | "COPY \(.) /\(.)/")' <<<"$bundle" >"$folder/bundle.Dockerfile"
say "wrote $folder, the bundle of version $version"
