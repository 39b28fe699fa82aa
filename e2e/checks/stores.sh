#!/usr/bin/env bash
# Makes sure of the images that the tests of app and worker run as their stores, where they cannot be pulled.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

if closed; then e2e/images/build.sh stores; fi
