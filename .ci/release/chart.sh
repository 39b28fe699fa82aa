#!/usr/bin/env bash
# Makes the charts of a release into $out/files: the packages, which push.sh pushes as OCI artifacts, and
# install.yaml for clusters without Helm and the bundle for the Operator Lifecycle Manager, which are rendered from these
# packages.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
"$cluster_dir/tools.sh" helm

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The values of the operator's chart name the registry, which is a fork's in a fork.
name_registry() {
  local values=$work/shortener-operator/values.yaml
  sed -i "s|^  repository: .*/operator\$|  repository: $image_repository/operator|" "$values"
  grep -qx "  repository: $image_repository/operator" "$values" \
    || die "values.yaml of the chart does not name the operator's image" "see name_registry in .ci/release/chart.sh"
}

mkdir -p "$out/files"
# Copies, so that the values can differ and the packages can have the commit's time.
for chart in "${charts[@]}"; do cp -RL "charts/$chart" "$work/$chart"; done
name_registry
find "$work" -exec touch --date "@$SOURCE_DATE_EPOCH" {} +
for chart in "${charts[@]}"; do
  helm package "$work/$chart" --version "$version" --app-version "$version" --destination "$out/files"
  # Helm writes this time to the manifest of the artifact.
  touch --date "@$SOURCE_DATE_EPOCH" "$(package_of "$chart")"
done
charts/dist.sh "$out/files/install.yaml" "$(package_of shortener-definition)" "$(package_of shortener-operator)"
charts/bundle.sh "$work/bundle" "$(package_of shortener-definition)" "$(package_of shortener-operator)"
pack "$work/bundle.tar" "$work/bundle"
gzip --no-name --stdout "$work/bundle.tar" >"$out/files/shortener-operator-$version-bundle.tar.gz"
