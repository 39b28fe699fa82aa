#!/usr/bin/env bash
# Compares docs/api.md with the OpenAPI document of the app; with --write, updates it.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

page=docs/api.md
document=workloads/app/openapi.json
fresh=$(mktemp)
trap 'rm -f "$fresh"' EXIT

jq -n -r --slurpfile document "$document" -f e2e/checks/api-page.jq >"$fresh"
if [[ ${1:-} == --write ]]; then
  cp "$fresh" "$page"
  printf 'wrote %s\n' "$page"
else
  diff -u "$page" "$fresh" || die "$page (-) does not show $document (+)" "run \`make api\`"
  printf '%s is up to date\n' "$page"
fi
