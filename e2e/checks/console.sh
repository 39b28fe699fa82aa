#!/usr/bin/env bash
# Uses the console in a headless Chromium as people do, with the programs of `make dev`, and lets axe-core look at every
# page. The stories stand in e2e/checks/console/stories.py.
#
#   e2e/checks/console.sh               all stories
#   e2e/checks/console.sh --story NAME  those whose names contain NAME
#   e2e/checks/console.sh --draw docs/pictures   draws the pictures of the README instead
#
# CHROMIUM names another program than Debian's chromium-headless-shell, the only one that this was tried with.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

readonly axe=axe-core@4.14.1 axe_sum=29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c
readonly base=http://127.0.0.1:8080

# Fetches axe-core, and prints the path of its script.
axe_core() {
  local folder=$cache/tools/$axe
  if ! echo "$axe_sum  $folder/axe.min.js" | sha256sum --check --status 2>/dev/null; then
    command -v npm >/dev/null || die "npm is not on this machine" "install Node.js with npm"
    rm -rf "$folder"
    mkdir -p "$folder"
    npm pack --silent --pack-destination "$folder" "$axe" >/dev/null
    tar --extract --gzip --directory "$folder" --strip-components 1 --file "$folder"/*.tgz package/axe.min.js
    echo "$axe_sum  $folder/axe.min.js" | sha256sum --check --quiet >&2
  fi
  printf '%s\n' "$folder/axe.min.js"
}

# Waits for the service; its programs may have to be compiled first.
await_service() {
  until curl --silent --fail --output /dev/null "$base/health"; do
    kill -0 "$service" 2>/dev/null || die "the service has ended" "look at $log"
    sleep 0.2
  done
}

find_chromium
script=$(axe_core)
if curl --silent --output /dev/null "$base/health"; then
  die "something answers on $base already" "end make dev, or what else listens there"
fi

pictures=$logs/console
log=$logs/console.log
keys=$(mktemp -d)
rm -rf "$pictures"
mkdir -p "$pictures"
export PYTHONDONTWRITEBYTECODE=1
IFS=$'\t' read -r groups receivers < <(python3 e2e/checks/console/keys.py "$keys")
claim_target
# The pictures show the address of a service that people use.
if [[ ${1:-} == --draw ]]; then export PUBLIC_URL=https://go.example.com; fi
# The stories add the headers of a proxy that signs people in.
export AUTH_PROXY_SECRET_DIRECTORY=$keys/proxy AUTH_PROXY_SCOPES=$groups
export WEBHOOKS=$receivers WEBHOOKS_SECRETS_DIRECTORY=$keys/webhooks
export AUTH_PROXY_USER_HEADER=X-Auth-Request-User AUTH_PROXY_GROUPS_HEADER=X-Auth-Request-Groups
# A job that takes longer than a second is given up after its last attempt.
AUTH_KEYS_DIRECTORY=$keys JOB_TIMEOUT_SECONDS=1 setsid e2e/checks/dev.sh </dev/null >"$log" 2>&1 &
service=$!
trap 'kill -INT -- -"$service" 2>/dev/null; wait "$service"; rm -rf "$keys"' EXIT
step "Start the app, a worker and their stores" await_service
python3 e2e/checks/console/stories.py --browser "$chromium" --base "$base" --keys "$keys" \
  --axe "$script" --pictures "$pictures" "$@"
say "pictures of the console: $pictures"
