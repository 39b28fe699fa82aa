#!/usr/bin/env bash
# Runs the commands of docs/hardening.md in their order, on the cluster that kubectl reaches. In place of the user's
# certificate, load balancer and DNS it has a certificate of its own and forwarded ports.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source "$cluster_dir/forward.sh"

page=docs/hardening.md
host=go.example.com
forward_namespace=links
work=$(mktemp -d)
trap 'end_forwards; rm -rf "$work"' EXIT

# Writes each block of commands to a file of its own.
split() {
  awk -v folder="$work" '/^```sh$/ { file = sprintf("%s/step-%02d", folder, ++number); next }
    /^```$/ { file = "" } file != "" { print >file }' "$page"
}

certificate() {
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -noenc -days 2 -subj "/CN=$host" \
    -addext "subjectAltName=DNS:$host" -keyout "$work/tls.key" -out "$work/tls.crt" 2>"$work/openssl" \
    || die "openssl makes no certificate: $(<"$work/openssl")" "install OpenSSL 3"
}

# Leads curl to the gateway, for the host's ports of HTTP and HTTPS.
lead() {
  local port
  printf 'cacert = "%s"\n' "$work/tls.crt" >"$work/.curlrc"
  for port in 80 443; do
    forward service/demo-gateway "$port"
    printf 'connect-to = "%s:%d:%s"\n' "$host" "$port" "$forwarded" >>"$work/.curlrc"
  done
}

# step_of <file>: runs the commands as a user who copies them would, who stops at the first that fails.
step_of() {
  # shellcheck disable=SC2016 # the step's own shell expands it
  (cd "$work" && CURL_HOME=$work bash -Eeuo pipefail -c 'trap "printf \"failed: %s\n\" \"\$BASH_COMMAND\" >&2" ERR; . "$1"' step "$1") \
    || { kubectl -n links get sst demo --output yaml || true
      die "the commands of step ${1##*-} of $page fail" "read their output above"; }
}

split
ln -s "$repo/e2e" "$work/e2e"
certificate
steps=("$work"/step-*)
headings=$(grep -c '^## [0-9]*\. ' "$page")
((${#steps[@]} == headings && headings >= 12)) \
  || die "$page has $headings numbered headings and ${#steps[@]} blocks of commands" "give each of its steps one block, marked sh"
! kubectl get namespace links >/dev/null 2>&1 || die "the cluster already has a namespace links, which this check would remove" "remove it, or run the check elsewhere"
trap 'end_forwards; rm -rf "$work"; kubectl delete namespace links --ignore-not-found --wait=false >/dev/null' EXIT
for step in "${steps[@]}"; do
  say "==> step ${step##*-}"
  if [[ $(<"$step") == *"://$host/"* ]]; then lead; fi
  step_of "$step"
done
say "the ${#steps[@]} steps of $page lead from the sample to a stack that refuses what it should"
