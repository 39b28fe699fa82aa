#!/usr/bin/env bash
# crds/ holds what `operator crd` prints. With --write it is brought up to date, without it is compared.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

file=crds/shortenerstack.yaml
fresh=$(mktemp)
trap 'rm -f "$fresh"' EXIT
operator crd >"$fresh"
[[ -s $fresh ]] || die "\`operator crd\` printed nothing"

if [[ ${1:-} == --write ]]; then
  cp "$fresh" "$file"
  printf 'wrote %s\n' "$file"
else
  diff -u "$file" "$fresh" || die "$file is not what \`operator crd\` prints" "run \`make crds\`"
  printf '%s is up to date\n' "$file"
fi
