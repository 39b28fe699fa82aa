#!/usr/bin/env bash
# Checks what catalogs of other projects get, with their own libraries: the bundle for the Operator Lifecycle Manager.
#
#   catalogs.sh             of this checkout
#   catalogs.sh <bundle>    of a release
source "$(dirname "${BASH_SOURCE[0]}")/../../.ci/release/lib.sh"

validators=$cluster_dir/tools
go_step "Build the validator of bundles from its Go module" "$validators/olm"
if (($# == 0)); then
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  set -- "$work/bundle"
  charts/bundle.sh "$1"
fi
"$(built "$validators/olm")/olm" "$1" || die "catalogs refuse the bundle" "correct charts/bundle, as the library says above"
say "the bundle is accepted"
