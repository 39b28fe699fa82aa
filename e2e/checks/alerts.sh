#!/usr/bin/env bash
# The alerts of a stack with Prometheus' own tool: their form, and when they are raised and when not. The rules are those
# that the operator renders, taken from the golden manifest that the unit tests hold it to.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The package would start a server too, so only the tool is taken out of it.
take_promtool() {
  cd "$work"
  apt-get update -qq
  apt-get download -qq prometheus
  dpkg-deb --extract prometheus_*.deb "$cache/promtool"
}

promtool=$(command -v promtool || true)
if [[ -z $promtool ]]; then
  promtool=$cache/promtool/usr/bin/promtool
  if [[ ! -x $promtool ]]; then
    remedy="promtool comes from the Debian package prometheus: it must be among the sources of this machine's apt" \
      step "Take promtool out of its Debian package" take_promtool
  fi
fi

# A snapshot begins with a header between two lines of dashes.
awk 'body {print} /^---$/ && ++dashes == 2 {body = 1}' operator/snapshots/alert-rules.snap >"$work/rules.yaml"
cp e2e/alerts/*.yaml "$work"

"$promtool" check rules "$work/rules.yaml"
"$promtool" test rules "$work"/*.test.yaml

# Every alert is raised by some case: what it expects is a list, and not the empty one.
while read -r alert; do
  grep --no-filename --after-context 1 "alertname: $alert\$" "$work"/*.test.yaml | grep -q 'exp_alerts:$' || die "no case of e2e/alerts/ raises $alert" "add one that raises it and one that does not"
done < <(sed -n 's/^ *- alert: //p' "$work/rules.yaml")
