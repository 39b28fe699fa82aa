#!/usr/bin/env bash
# Makes the chart of a release into $out/files: the package, which push.sh pushes as an OCI artifact, and
# install.yaml for clusters without Helm, which is rendered from that package.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
"$cluster_dir/tools.sh" helm

package=$out/files/shortener-operator-$version.tgz
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# A copy, so that the values can name a fork's registry and the package can have the commit's time.
copy_chart() {
  cp -RL charts/shortener-operator "$work/chart"
  sed -i "s|^  repository: .*/operator\$|  repository: $image_repository/operator|" "$work/chart/values.yaml"
  grep -qx "  repository: $image_repository/operator" "$work/chart/values.yaml" \
    || die "values.yaml of the chart does not name the operator's image" "see copy_chart in .ci/release/chart.sh"
  find "$work/chart" -exec touch --date "@$SOURCE_DATE_EPOCH" {} +
}

copy_chart
mkdir -p "$out/files"
helm package "$work/chart" --version "$version" --app-version "$version" --destination "$out/files"
# Helm writes this time to the manifest of the artifact.
touch --date "@$SOURCE_DATE_EPOCH" "$package"
charts/dist.sh "$package" "$out/files/install.yaml"
