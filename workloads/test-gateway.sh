#!/usr/bin/env bash
# Puts the nginx of the gateway on the PATH, for a command that starts its own server, such as the benchmark.
#
#   workloads/test-gateway.sh nginx -v
# shellcheck source=test-lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/test-lib.sh"

image=$(store_image GATEWAY_IMAGE)
programs=$(take_programs "$image" nginx)
PATH=$programs:$PATH exec "$@"
