#!/usr/bin/env bash
# Looks at every page of the app and of the gateway in a headless Chromium, without a cluster: light and dark, as wide as
# a phone and as a desktop. What it checks stands in e2e/checks/pages/look.py.
#
#   e2e/checks/pages.sh           fails also if docs/preview.png shows another page than the app
#   e2e/checks/pages.sh --write   writes docs/preview.png
#
# CHROMIUM names another program than Debian's chromium-headless-shell, the only one that this was tried with.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

case "$#:${1:-}" in
  0: | 1:--write) ;;
  *) die "unknown arguments: $*" "run it as: pages.sh [--write]" ;;
esac
find_chromium

pictures=$logs/pages
records=$(mktemp -d)
trap 'rm -rf "$records"' EXIT
rm -rf "$pictures"
mkdir -p "$pictures"
claim_target
e2e/checks/stores.sh
PAGES_FOLDER=$records cargo test --profile quick --workspace --test integration -- pages::
PYTHONDONTWRITEBYTECODE=1 python3 e2e/checks/pages/look.py --browser "$chromium" --records "$records" \
  --gateway operator/core/snapshots/nginx-standalone.snap --pictures "$pictures" --document docs/preview.png "$@"
say "pictures of all pages: $pictures"
