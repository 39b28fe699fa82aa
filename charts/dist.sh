#!/usr/bin/env bash
# Writes dist/install.yaml: the chart with its default values, for `kubectl apply --server-side -f` without Helm.
#
#   charts/dist.sh [chart folder or package] [file]
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../e2e/checks/lib.sh"
"$cluster_dir/tools.sh" helm

chart=${1:-charts/shortener-operator}
file=${2:-dist/install.yaml}
namespace=shortener-system
mkdir -p "$(dirname "$file")"
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
} >"$file.part"
mv "$file.part" "$file"
say "wrote $file, $(grep -c '^kind: ' "$file") objects"
