#!/usr/bin/env bash
# Checks the alerts of a stack with Prometheus' own tool: their syntax, and the cases that raise them or do not. The
# rules are those of the operator's golden manifest, which the unit tests check.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source "$(dirname "${BASH_SOURCE[0]}")/promtool.sh"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# A snapshot begins with a header between two lines of dashes.
awk 'body {print} /^---$/ && ++dashes == 2 {body = 1}' operator/core/snapshots/alert-rules.snap >"$work/rules.yaml"
hold_alerts "$work" e2e/alerts
