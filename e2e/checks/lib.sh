# shellcheck shell=bash
# What the checks share, on top of the local cluster's library: the operator of this checkout.
# Sourced; moves to the root of the checkout.

source "$(dirname "${BASH_SOURCE[0]}")/../cluster/lib.sh"
# The tests compile the workspace on this machine anyway, so the images come from there.
export SHORTENER_COMPILER=${SHORTENER_COMPILER:-host}
cd "$repo" || exit 1

# Runs the operator that this checkout builds. Always the whole workspace: a part of it would be built with other
# features in the crates that all share, and so from the beginning.
operator() {
  cargo build --quiet --profile quick --workspace --bins
  "$CARGO_TARGET_DIR/$(host_triple)/quick/operator" "$@"
}
