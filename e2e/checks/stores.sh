#!/usr/bin/env bash
# Builds the images of the stores for the tests of the app and the worker, where they cannot be pulled.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

if closed; then e2e/images/build.sh stores; fi
