#!/usr/bin/env bash
# Fetches the libraries of the console from npm in these versions, and writes their checksums. A browser resolves only
# relative names without an import map, which the console's policy forbids, so the one import of hooks.mjs is changed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

readonly preact=preact@11.2.0 htm=htm@3.1.1 dsv=d3-dsv@3.0.2

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# take <package> <file in the package>=<name here>...
take() {
  local package=$1 pair
  shift
  mkdir -p "$folder/$package"
  tar --extract --gzip --directory "$folder/$package" --strip-components 1 --file "$(npm pack --silent --pack-destination "$folder" "$package" | sed "s|^|$folder/|")"
  for pair in "$@"; do cp "$folder/$package/${pair%=*}" "${pair#*=}"; done
}

take "$preact" dist/preact.mjs=preact.mjs hooks/dist/hooks.mjs=hooks.mjs LICENSE=LICENSE.preact
take "$htm" dist/htm.mjs=htm.mjs LICENSE=LICENSE.htm
take "$dsv" dist/d3-dsv.min.mjs=d3-dsv.mjs LICENSE=LICENSE.d3-dsv
sed --in-place 's|from"preact"|from"./preact.mjs"|' hooks.mjs
sed --in-place '/^\/\/# sourceMappingURL=/d' ./*.mjs
chmod 0644 ./*.mjs LICENSE.*
sha256sum ./*.mjs >SHA256SUMS
