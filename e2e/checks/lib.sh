# shellcheck shell=bash
# What the checks share, on top of the local cluster's library: the Rust target directory and the operator.
# Sourced; moves to the root of the checkout.

source "$(dirname "${BASH_SOURCE[0]}")/../cluster/lib.sh"
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$cache/target}
cd "$repo" || exit 1

# Runs the operator that this checkout builds. Always the whole workspace: a part of it would be built with other
# features in the crates that all share, and so from the beginning.
operator() {
  cargo build --quiet --release --workspace --bins
  "$CARGO_TARGET_DIR/$(rustc -vV | sed -n 's/^host: //p')/release/operator" "$@"
}
