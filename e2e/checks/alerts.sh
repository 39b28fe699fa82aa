#!/usr/bin/env bash
# Checks the alerts of a stack and of the chart with Prometheus' own tool: their syntax, and the cases that raise them or
# do not.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
"$cluster_dir/tools.sh" helm

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Takes only the tool out of the package, because installing it would start a server too.
take_promtool() {
  local folder
  folder=$(mktemp -d)
  cd "$folder"
  apt-get update -qq
  apt-get download -qq prometheus
  dpkg-deb --extract prometheus_*.deb "$cache/promtool"
  rm -r "$folder"
}

promtool=$(command -v promtool || true)
if [[ -z $promtool ]]; then
  promtool=$cache/promtool/usr/bin/promtool
  if [[ ! -x $promtool ]]; then
    remedy="check that the apt sources of this machine have the Debian package prometheus, which contains promtool" \
      step "Take promtool out of its Debian package" take_promtool
  fi
fi

# hold_alerts <folder of rules.yaml> <folder of cases>: checks the syntax of the rules, the cases that raise them or
# do not, and that some case raises every alert.
hold_alerts() {
  local rules=$1/rules.yaml cases=$2 alert
  cp "$cases"/*.test.yaml "$1"
  "$promtool" check rules "$rules"
  "$promtool" test rules "$1"/*.test.yaml
  while read -r alert; do
    # The expected alerts must be a list that is not empty.
    grep --no-filename --after-context 1 "alertname: $alert\$" "$1"/*.test.yaml | grep 'exp_alerts:\( &[a-z_]*\)\?$' >/dev/null \
      || die "no case of $cases raises $alert" "add a case that raises it and one that does not"
  done < <(sed -n 's/^ *- alert: //p' "$rules")
}

mkdir "$work/stack" "$work/chart"
# The rules of a stack are those of the operator's golden manifest: its header is between two lines of dashes.
awk 'body {print} /^---$/ && ++dashes == 2 {body = 1}' operator/core/snapshots/alert-rules.snap >"$work/stack/rules.yaml"
hold_alerts "$work/stack" e2e/alerts
helm template test charts/shortener-operator --namespace shortener-system --set prometheusRule.enabled=true \
  --set prometheusRule.runbookBaseUrl=https://example.com/runbooks --show-only templates/prometheusrule.yaml \
  | sed -n '/^spec:$/,$ s/^  //p' >"$work/chart/rules.yaml"
hold_alerts "$work/chart" e2e/alerts/chart
