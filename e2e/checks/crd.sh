#!/usr/bin/env bash
# Compares crds/, the chart's copy and docs/reference.md with the output of `operator crd`; with --write, updates
# them. The chart has a copy, because GitOps tools do not follow a symbolic link.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

fresh=$(mktemp)
trap 'rm -f "$fresh"' EXIT

# in_step <file> <format>
in_step() {
  local file=$1 format=$2
  operator crd --format "$format" >"$fresh"
  [[ -s $fresh ]] || die "\`operator crd --format $format\` printed nothing" "run it by hand and read its error"
  if [[ $write == yes ]]; then
    cp "$fresh" "$file"
    printf 'wrote %s\n' "$file"
  else
    diff -u "$file" "$fresh" || die "$file (-) differs from the output of \`operator crd --format $format\` (+)" "run \`make crds\`"
    printf '%s is up to date\n' "$file"
  fi
}

write=no
if [[ ${1:-} == --write ]]; then write=yes; fi
in_step crds/shortenerstack.yaml yaml
in_step charts/shortener-operator/files/shortenerstack.yaml yaml
in_step docs/reference.md markdown
