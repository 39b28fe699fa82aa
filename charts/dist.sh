#!/usr/bin/env bash
# Writes dist/install.yaml: both charts with their default values, for `kubectl apply --server-side -f` without Helm.
#
#   charts/dist.sh [file] [chart of the definition] [chart of the operator]     a chart is a folder or a package
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../e2e/checks/lib.sh"
"$cluster_dir/tools.sh" helm

file=${1:-dist/install.yaml}
definition=${2:-charts/shortener-definition}
operator=${3:-charts/shortener-operator}
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
  helm template shortener-definition "$definition" --namespace "$namespace"
  helm template shortener-operator "$operator" --namespace "$namespace" --no-hooks
} >"$file.part"
mv "$file.part" "$file"
say "wrote $file, $(grep -c '^kind: ' "$file") objects"
