# shellcheck shell=bash
# Functions that the checks share, in addition to the local cluster's library: the operator of this checkout.
# Sourced; changes to the root of the checkout.

source "$(dirname "${BASH_SOURCE[0]}")/../cluster/lib.sh"
# The tests compile the workspace on this machine anyway, so the images use the same programs.
export SHORTENER_COMPILER=${SHORTENER_COMPILER:-host}
cd "$repo" || exit 1

# Runs the operator of this checkout. It always builds the whole workspace: a part of it would have other features
# in the common crates and would compile them again.
operator() {
  cargo build --quiet --profile quick --workspace --bins
  "$CARGO_TARGET_DIR/$(host_triple)/quick/operator" "$@"
}
