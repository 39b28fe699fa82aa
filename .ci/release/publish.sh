#!/usr/bin/env bash
# Makes the GitHub release of a tag from $out/files, with the notes from CHANGELOG.md.
#
#   .ci/release/publish.sh <tag>
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

tag=${1:?usage: publish.sh <tag>}
[[ -s $out/files/SHA256SUMS.sigstore.json ]] || die "$out/files/SHA256SUMS is not signed" "run .ci/release/sign.sh first"
gh release create "$tag" --verify-tag --title "ShortenerStack $version" --notes-file "$out/notes.md" "$out"/files/*
