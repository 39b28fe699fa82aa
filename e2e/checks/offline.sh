#!/usr/bin/env bash
# Runs e2e/tests/offline, which compares files with each other and with what helm makes of them. Arguments select tests;
# UPDATE=1 writes the generated files of the tests `generated::`.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# No generated file needs helm.
[[ -n ${UPDATE:-} ]] || "$cluster_dir/tools.sh" helm
cargo test --profile quick --workspace --no-fail-fast --test offline -- "$@"
