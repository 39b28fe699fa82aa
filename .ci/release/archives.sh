#!/usr/bin/env bash
# Makes an archive of the tools of each target in $out/bin into $out/files for users: kubectl's plugin, and the operator,
# whose commands `crd` and `plan` run anywhere. Writes the manifest of the plugin for krew beside them.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
"$cluster_dir/tools.sh" gojq

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out/files"
for folder in "$out"/bin/*; do
  for tool in "${tools[@]}"; do
    [[ -s $folder/$tool ]] || die "$folder has no $tool" "run .ci/release/binaries.sh ${folder##*/}"
  done
  target=${folder##*/}
  system=$(system_of "$target") architecture=$(architecture_of "$target")
  archive=$out/files/shortener-operator-$version-$system-$architecture.tar.gz
  rm -rf "$work/tree"
  # Files that one job passes to another lose their executable bit.
  install -D -m 0755 "$folder/operator" "$work/tree/shortener-operator"
  install -m 0755 "$folder/kubectl-shortener" "$work/tree/kubectl-shortener"
  install -m 0644 LICENSE "$work/tree/LICENSE"
  pack "$work/archive.tar" "$work/tree"
  gzip --no-name --stdout "$work/archive.tar" >"$archive"
  say "made ${archive##*/}"
done
(cd "$out/files" && sha256sum -- "shortener-operator-$version"-*-*.tar.gz) | krew_manifest >"$out/files/shortener.yaml"
