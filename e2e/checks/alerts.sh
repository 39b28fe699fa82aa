#!/usr/bin/env bash
# The alerts of a stack with Prometheus' own tool: their form, and when they are raised and when not. The rules are those
# that the operator renders, taken from the golden manifest that the unit tests hold it to.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source "$(dirname "${BASH_SOURCE[0]}")/promtool.sh"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# A snapshot begins with a header between two lines of dashes.
awk 'body {print} /^---$/ && ++dashes == 2 {body = 1}' operator/snapshots/alert-rules.snap >"$work/rules.yaml"
hold_alerts "$work" e2e/alerts
