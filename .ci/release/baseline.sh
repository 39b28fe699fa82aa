#!/usr/bin/env bash
# Writes the pod templates that the version in Cargo.toml makes to operator/releases/<version>.yaml: a part of each
# release. The next version is compared with them, so that none restarts pods by accident.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# Users get the images of the default repository.
unset IMAGE_REPOSITORY
test=reconcile::tests::releases::no_pod_restarts_with_a_release_that_does_not_say_so
WRITE_BASELINE=yes cargo test --profile quick --workspace --lib -- --exact "$test"
[[ -s operator/releases/$version.yaml ]] || die "operator/releases/$version.yaml was not written" "look for a renamed test: $test"
say "wrote operator/releases/$version.yaml"
