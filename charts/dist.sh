#!/usr/bin/env bash
# Writes dist/install.yaml: the chart with its default values, for `kubectl apply --server-side -f` without Helm.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../e2e/checks/lib.sh"
source "$(dirname "${BASH_SOURCE[0]}")/../e2e/checks/chart-tools.sh"

namespace=shortener-system
mkdir -p dist
{
  cat <<NAMESPACE
apiVersion: v1
kind: Namespace
metadata:
  name: $namespace
  labels:
    app.kubernetes.io/name: shortener-operator
    pod-security.kubernetes.io/enforce: restricted
NAMESPACE
  helm template shortener-operator "$chart" --namespace "$namespace" --no-hooks
} >dist/install.yaml.part
mv dist/install.yaml.part dist/install.yaml
say "wrote dist/install.yaml, $(grep -c '^kind: ' dist/install.yaml) objects"
