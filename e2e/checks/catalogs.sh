#!/usr/bin/env bash
# Checks what catalogs of other projects get, with their own libraries: the bundle for the Operator Lifecycle Manager, and the
# manifest of kubectl's plugin for krew.
#
#   catalogs.sh                        of this checkout, with invented archives
#   catalogs.sh <bundle> <manifest>    of a release
source "$(dirname "${BASH_SOURCE[0]}")/../../.ci/release/lib.sh"

validators=$cluster_dir/tools
go_step "Build the validator of bundles from its Go module" "$validators/olm"
go_step "Build the validator of krew from its Go module" "$validators/krew"
if (($# == 0)); then
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  set -- "$work/bundle" "$work/shortener.yaml"
  charts/bundle.sh "$1"
  printf '%064d  shortener-operator-0-%s.tar.gz\n' 1 linux-amd64 2 darwin-arm64 | krew_manifest >"$2"
fi
"$(built "$validators/olm")/olm" "$1" || die "catalogs refuse the bundle" "correct charts/bundle, as the library says above"
"$(built "$validators/krew")/validate-krew-manifest" -skip-install -manifest "$2" || die "krew refuses the manifest" "correct .ci/release/krew.jq"
say "the bundle and the manifest are accepted"
