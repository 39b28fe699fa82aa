#!/usr/bin/env bash
# Runs the app, a worker and their stores on this machine, without a cluster, for people who change the service. Ctrl-C
# ends everything.
#
# Those who run it may set variables of the programs, such as AUTH_KEYS_DIRECTORY, a folder with keys.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# A key for everything. Only this machine reaches the service.
key="key-of-this-machine-0123456789abcdef"

"$repo/e2e/checks/stores.sh"
cargo build --profile quick --workspace --bins --example dev
programs=$CARGO_TARGET_DIR/$(host_triple)/quick
export CONSOLE_ENABLED=true
# What a service without keys offers to everyone needs none here either.
export AUTH_PROTECT=metrics
if [[ -z ${AUTH_KEYS_DIRECTORY:-} ]]; then
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  printf '%s' "$key" >"$folder/developer"
  printf 'shorten jobs docs metrics admin' >"$folder/developer.scopes"
  export AUTH_KEYS_DIRECTORY=$folder
  say "the console is http://127.0.0.1:8080/console, with the key $key"
fi
"$programs/examples/dev" "$programs/app" "$programs/worker"
