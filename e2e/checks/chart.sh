#!/usr/bin/env bash
# Checks the chart: lint, and its renderings against Kubernetes' own schemas (kubeconform) and good practice (kube-score).
# e2e/tests/offline/chart.rs checks what each rendering has.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source "$repo/e2e/checks/chart-tools.sh"

schema_folder=$(schemas)
helm lint --strict "$chart"
while read -r name arguments; do
  if [[ $name == '#' ]]; then continue; fi
  read -ra arguments <<<"$arguments"
  file=$work/$name.yaml
  helm template test "$chart" --namespace shortener-system "${arguments[@]}" >"$file"
  # Kubernetes' schemas do not contain the kinds of the Prometheus operator.
  kubeconform -strict -summary -skip ServiceMonitor,PrometheusRule \
    -schema-location "$schema_folder/{{.ResourceKind}}{{.KindSuffix}}.json" "$file"
  # kube-score would require a numeric user, which OpenShift chooses. The images are pinned, so pulling them at every
  # start would gain nothing.
  [[ $name == openshift ]] \
    || kube-score score --ignore-test container-image-pull-policy --output-format ci "$file" >"$work/$name.score" || {
    grep -E '^\[(CRITICAL|WARNING)\]' "$work/$name.score"
    die "kube-score rejects the rendering $name" "correct what it lists above"
  }
  say "rendering $name is accepted"
done <e2e/chart/renderings.txt
