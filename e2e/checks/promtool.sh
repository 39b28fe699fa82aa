# shellcheck shell=bash
# Sourced after lib.sh: checks alerts against their cases with Prometheus' own tool.

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
    grep --no-filename --after-context 1 "alertname: $alert\$" "$1"/*.test.yaml | grep 'exp_alerts:$' >/dev/null \
      || die "no case of $cases raises $alert" "add a case that raises it and one that does not"
  done < <(sed -n 's/^ *- alert: //p' "$rules")
}
