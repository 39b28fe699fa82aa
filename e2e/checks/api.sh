#!/usr/bin/env bash
# Tests app and worker with Schemathesis against their OpenAPI document, without a cluster: once with keys, once without.
# The findings that are left out stand with their reasons in e2e/checks/api/schemathesis.toml.
#
# API_EXAMPLES is the number of requests for each operation and phase, 100 by default.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

folder=$repo/e2e/checks/api
# The packages work with the Python that they were installed by.
python=$(python3 -c 'import sys; print(*sys.version_info[:2], sep=".")') \
  || die "python3 is not on this machine" "install Python 3.10 or later (apt-get install python3 python3-venv)"
environment=$cache/tools/schemathesis-$(content_key "$folder/requirements.txt")-$python

make_environment() {
  rm -rf "$environment"
  python3 -m venv "$environment"
  "$environment/bin/pip" install --disable-pip-version-check --no-deps --requirement "$folder/requirements.txt"
  touch "$environment/complete"
}

if [[ ! -e $environment/complete ]]; then
  remedy="install python3-venv, and check that this machine reaches the Python package index (pip config list)" \
    step "Install Schemathesis from its Python packages" make_environment
fi
claim_target
e2e/checks/stores.sh
export API_TESTER=$folder/tester.sh API_ENVIRONMENT=$environment
cargo test --profile quick --workspace --test integration -- api:: --test-threads 1 --nocapture
