#!/usr/bin/env bash
# Puts valkey-server on the PATH, for tests that start their own server, and runs a command.
#
#   workloads/test-database.sh workloads/test-cache.sh cargo test -p shortener-app
# shellcheck source=test-lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/test-lib.sh"

image=$(store_image CACHE_IMAGE)
programs=$(take_programs "$image" valkey-server)
PATH=$programs:$PATH exec "$@"
