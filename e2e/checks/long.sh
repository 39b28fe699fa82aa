#!/usr/bin/env bash
# Runs the cluster tests that `make test` leaves out or shortens because of their time: the matrix of profiles, the
# counter-proof of rolling updates, floods of E2E_STARVE_SECONDS each (120), and an operator that is killed E2E_KILLS times
# (200). It creates the cluster of `make test` for that, and removes it afterwards.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source "$(dirname "${BASH_SOURCE[0]}")/test-cluster.sh"

export E2E_STARVE_SECONDS=${E2E_STARVE_SECONDS:-120} E2E_KILLS=${E2E_KILLS:-200}
# These tests measure, so the images are those of a release (minutes of compiling more).
export PROFILE=release

claim_cluster
cluster_up 8>&-
cluster_tests serial --test-threads=1 --show-output starvation:: chaos:: "${long_tests[@]}" 8>&-
