#!/usr/bin/env bash
# Kills workers during their jobs: SOAK_KILLS times while SOAK_JOBS jobs run.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

claim_target
cargo test --profile quick --workspace --test integration -- soak:: --nocapture
