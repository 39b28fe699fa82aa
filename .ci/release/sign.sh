#!/usr/bin/env bash
# Signs the images and the chart that push.sh pushed and the checksums of the files, without a key: cosign gets a
# certificate for the identity of the workflow that runs this script, so it works only there. Also attaches the bill
# of materials to each image.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

[[ -n ${ACTIONS_ID_TOKEN_REQUEST_URL:-} ]] || die "ACTIONS_ID_TOKEN_REQUEST_URL is not set: only a workflow with an identity can sign" "run this in a workflow with the permission id-token: write"
[[ -s $out/pushed.txt ]] || die "$out/pushed.txt is missing" "run .ci/release/push.sh first"
bill=$out/files/shortener-stack-$version.cdx.json

while IFS= read -r image; do
  cosign sign --yes --recursive "$image"
  if [[ $image != */charts/* ]]; then cosign attest --yes --type cyclonedx --predicate "$bill" "$image"; fi
done <"$out/pushed.txt"
cosign sign-blob --yes --bundle "$out/files/SHA256SUMS.sigstore.json" "$out/files/SHA256SUMS"
