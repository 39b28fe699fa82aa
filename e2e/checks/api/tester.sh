#!/usr/bin/env bash
# Tests one running service with Schemathesis. The tests of the worker start it, see e2e/checks/api.sh.
#
# API_URL is the address of the app, API_KEY a key with every scope; without it, the service has no keys.
set -euo pipefail

folder=$(realpath "$(dirname "${BASH_SOURCE[0]}")")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
arguments=(--url "$API_URL" --max-examples "${API_EXAMPLES:-100}")
if [[ -n ${API_KEY:-} ]]; then arguments+=(--header "Authorization: Bearer $API_KEY"); fi
# It leaves its notes in the folder where it runs.
cd "$scratch"
PYTHONPATH=$folder PYTHONDONTWRITEBYTECODE=1 "$API_ENVIRONMENT/bin/schemathesis" \
  --config-file "$folder/schemathesis.toml" run "$API_URL/openapi.json" "${arguments[@]}"
