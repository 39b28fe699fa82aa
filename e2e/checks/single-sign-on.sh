#!/usr/bin/env bash
# Signs people in by a real oauth2-proxy and a small OpenID Connect provider before the programs of `make dev`, and attacks
# what depends on it. What is tried stands in e2e/checks/single-sign-on/attack.py. The programs are compiled from their Go
# modules, which takes minutes the first time.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

readonly here=$repo/e2e/checks/single-sign-on
readonly app=127.0.0.1:8080 provider=127.0.0.1:8091 control=127.0.0.1:8092
# The proxy before the service, the one that a controller asks, and the one by which browsers sign in then.
readonly proxy=127.0.0.1:8093 asked=127.0.0.1:8094 sign_in=127.0.0.1:8095

# Writes the configuration of a proxy that listens at $1, with the headers that $2 gets (Request, Response or nothing), and
# the upstream $3.
proxy_settings() {
  cat <<SETTINGS
server: {bindAddress: "$1"}
upstreamConfig: {upstreams: [{id: app, path: /, $3}]}
providers:
  - id: oidc
    provider: oidc
    clientID: links
    clientSecretFile: $work/client-secret
    scope: openid email groups
    oidcConfig: {issuerURL: "http://$provider/oidc", emailClaim: email, groupsClaim: groups, audienceClaims: [aud]}
SETTINGS
  if [[ -z $2 ]]; then return; fi
  cat <<SETTINGS
inject$2Headers:
  - {name: X-Auth-Request-User, values: [{claimSource: {claim: email}}]}
  - {name: X-Auth-Request-Groups, values: [{claimSource: {claim: groups}}]}
  - {name: X-Auth-Proxy-Secret, values: [{secretSource: {fromFile: "$work/auth-proxy/secret"}}]}
SETTINGS
}

# start <name> command...: starts a program that ends with this script.
start() {
  local name=$1
  shift
  "$@" </dev/null >"$logs/single-sign-on-$name.log" 2>&1 &
  started+=("$!")
}

# await <url>: waits for an answer.
await() {
  until curl --silent --output /dev/null "$1"; do
    kill -0 "${started[@]}" || die "a program has ended" "look at $logs/single-sign-on-*.log"
    sleep 0.2
  done
}

go_step "Build oauth2-proxy and an OpenID Connect provider" "$here/programs" tool
go_step "Build the provider" "$here/programs" shortener.dev/e2e/single-sign-on
if curl --silent --output /dev/null "http://$app/health"; then
  die "something answers on $app already" "end make dev, or what else listens there"
fi

work=$(mktemp -d)
started=()
trap 'kill -INT -- "${started[@]/#/-}" 2>/dev/null; kill "${started[@]}" 2>/dev/null; wait; rm -rf "$work"' EXIT
mkdir "$work/keys" "$work/auth-proxy"
openssl rand -hex 32 >"$work/keys/ops"
printf admin >"$work/keys/ops.scopes"
for name in auth-proxy/secret client-secret; do openssl rand -hex 32 | tr -d '\n' >"$work/$name"; done
openssl rand -hex 16 | tr -d '\n' >"$work/cookie-secret"
proxy_settings "$proxy" Request "uri: \"http://$app\", passHostHeader: true" >"$work/proxy.yaml"
proxy_settings "$asked" Response "static: true, staticCode: 202" >"$work/asked.yaml"
proxy_settings "$sign_in" '' "static: true, staticCode: 202" >"$work/sign_in.yaml"

export AUTH_KEYS_DIRECTORY=$work/keys AUTH_PROXY_SECRET_DIRECTORY=$work/auth-proxy AUTH_PROXY_TRUSTED_PEERS=127.0.0.1/32
export AUTH_PROXY_USER_HEADER=X-Auth-Request-User AUTH_PROXY_GROUPS_HEADER=X-Auth-Request-Groups
export AUTH_PROXY_SCOPES='{"editors": ["links:own"], "staff": ["admin"]}'
claim_target
set -m
start app e2e/checks/dev.sh
start provider "$(built "$here/programs" shortener.dev/e2e/single-sign-on)/single-sign-on" \
  -listen "$provider" -control "$control" -client-secret "$(<"$work/client-secret")"
await "http://$provider/oidc/.well-known/openid-configuration"
for name in proxy asked sign_in; do
  start "$name" "$(built "$here/programs" tool)/oauth2-proxy" --alpha-config="$work/$name.yaml" \
    --cookie-secret-file="$work/cookie-secret" --cookie-secure=false --cookie-samesite=lax --email-domain='*' \
    --redirect-url="http://${!name}/oauth2/callback" --skip-provider-button=true
done
set +m
step "Start the app, a worker and their stores" await "http://$app/health"
await "http://$proxy/ping"
await "http://$asked/ping"
await "http://$sign_in/ping"
PYTHONDONTWRITEBYTECODE=1 python3 "$here/attack.py" --app "http://$app" --control "http://$control" \
  --proxy "http://$proxy" --asked "http://$asked" --sign-in "http://$sign_in" --secret "$work/auth-proxy/secret" --key "$work/keys/ops"
