#!/usr/bin/env bash
# Sends every request of the specification's tables 4.1 and 4.3 through the gateway of the stack of `make up`, and
# those of 2.5 and 4.4 through forwarded ports with the credentials of its Secrets. Prints each request with its
# answer, and fails with the rows whose answer differs from the table.
#
# curl reads the credentials from its standard input, so no argument, file or output contains them.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=../cluster/forward.sh
. "$cluster_dir/forward.sh"

gateway=http://localhost:$GATEWAY_PORT
target='https://example.com/a?b=c'
json='content-type: application/json'
# Time for a worker to start, and for the broker, which updates its counts only every few seconds.
patience=120
work=$(mktemp -d)
collection=tables-$$
row=
wrong=()
credentials=
store=

clean_up() {
  local status=$?
  trap - EXIT
  # An early failure leaves the key empty; then there is no collection to delete.
  if [[ -n $store ]]; then
    printf '%s' "$credentials" | curl --config - --silent --request DELETE --output /dev/null "$store/collections/$collection" || true
  fi
  end_forwards
  rm -rf "$work"
  exit "$status"
}

trap clean_up EXIT

# row <table> <what it says>: starts a row of a table.
row() {
  row="$1, $2"
  printf '\n%s  %s\n' "$1" "$2"
}

# ask <base> <method> <path> [JSON]: sends a request, prints it with its answer, and sets status, location and body.
ask() {
  send "$@"
  show "$2 $3${4:+ $4}"
}

send() {
  local base=$1 method=$2 path=$3 data=()
  if (($# > 3)); then data=(--header "$json" --data "$4"); fi
  : >"$work/headers"
  : >"$work/body"
  status=$(printf '%s' "$credentials" | curl --config - --silent --max-time 20 --request "$method" "${data[@]}" \
    --dump-header "$work/headers" --output "$work/body" --write-out '%{http_code}' "$base$path") || status="none, curl ended with $?"
  location=$(sed -n 's/^location: \(.*\)\r$/\1/Ip' "$work/headers")
  type=$(sed -n 's/^content-type: \(.*\)\r$/\1/Ip' "$work/headers")
  body=$(tr -d '\0' <"$work/body")
}

show() {
  local lines
  lines=$(wc -l <"$work/body")
  printf '  > %s\n  < %s%s%s\n' "$1" "$status" "${type:+, $type}" "${location:+, Location: $location}"
  if [[ -n $body ]]; then head -n 4 "$work/body" | cut -c 1-400 | sed 's/^/    /;$a\'; fi
  if ((lines > 4)); then printf '    ... %d lines\n' "$lines"; fi
}

# right <what> command...: marks the row as wrong unless the command succeeds.
right() {
  local what=$1
  shift
  if "$@"; then return; fi
  printf '  WRONG: expected %s\n' "$what"
  wrong+=("$row: expected $what")
}

status_is() { right "status $1" test "$status" = "$1"; }

# body_is <what> <jq expression>: the body must be JSON for which the expression is true.
body_is() { right "$1" holds "$2"; }
holds() { jq --exit-status "$1" <<<"$body" >/dev/null 2>&1; }

is_metrics() {
  right "plain text" test "${type%%;*}" = text/plain
  right "an exposition of http_requests_total" grep --quiet '^http_requests_total{' "$work/body"
}

leads_to_target() {
  status_is 302
  right "Location: $target" test "$location" = "$target"
}

# secret <name> <key>
secret() { kubectl get secret "$1" --namespace default --output "go-template={{index .data \"$2\" | base64decode}}"; }

# Quotes a value for curl's configuration.
quoted() {
  local value=${1//\\/\\\\}
  printf '"%s"' "${value//\"/\\\"}"
}

gateway_routes() {
  row 4.1 "GET /gateway-health is answered by the gateway: text \`gateway ok\`"
  ask "$gateway" GET /gateway-health
  status_is 200
  right "the text \`gateway ok\`" test "$body" = 'gateway ok'

  row 4.1 "GET /api/health: JSON object with host, role"
  ask "$gateway" GET /api/health
  status_is 200
  body_is "an object with a host and the role app" '(.host | type == "string" and . != "") and .role == "app"'

  row 4.1 "GET /api/metrics: plain-text metrics"
  ask "$gateway" GET /api/metrics
  status_is 200
  is_metrics

  row 4.1 "POST /api/shorten: JSON body; creates a code"
  ask "$gateway" POST /api/shorten "{\"url\":\"$target\"}"
  status_is 201
  body_is "a code and its short URL" '.code as $code | ($code | test("^[A-Za-z0-9_-]+$")) and (.short_url | endswith("/" + $code))'
  code=$(jq --raw-output '.code // empty' <<<"$body" 2>/dev/null) || code=

  row 4.1 "POST /api/jobs: 202, JSON object with status"
  ask "$gateway" POST /api/jobs '{"task":"email","id":1}'
  status_is 202
  body_is "the status enqueued" '.status == "enqueued"'

  row 4.1 "GET /api/links/<code>: 302 with Location"
  ask "$gateway" GET "/api/links/${code:-none}"
  leads_to_target

  row 4.1 "the explicit paths match exactly"
  ask "$gateway" GET /api/health/x
  status_is 404
}

# Their paths have no prefix; from outside only the catch-all route leads to them.
app_routes() {
  local address answered
  row 4.3 "GET /health, through the catch-all"
  ask "$gateway" GET /health
  status_is 200
  body_is "an object with a host and the role app" '(.host | type == "string") and .role == "app"'

  row 4.3 "GET /metrics, through the catch-all"
  ask "$gateway" GET /metrics
  status_is 200
  is_metrics

  row 4.3 "POST /shorten, through the catch-all"
  ask "$gateway" POST /shorten "{\"url\":\"$target\"}"
  status_is 201
  code=$(jq --raw-output '.code // empty' <<<"$body" 2>/dev/null) || code=

  row 4.3 "POST /jobs, through the catch-all"
  ask "$gateway" POST /jobs '{"task":"email","id":2}'
  status_is 202

  row 4.3 "GET /:code, through the catch-all"
  ask "$gateway" GET "/${code:-none}"
  leads_to_target

  row 4.3 "the application port is not published"
  for address in localhost "$(kubectl get nodes --output jsonpath='{.items[0].status.addresses[?(@.type=="InternalIP")].address}')"; do
    answered=0
    curl --silent --max-time 5 --output /dev/null "http://$address:3000/health" || answered=$?
    printf '  > GET http://%s:3000/health\n  < curl ended with %d\n' "$address" "$answered"
    # Another program on this port of this machine has to be stopped for this row.
    right "no connection on port 3000 of $address" no_connection "$answered"
  done
}

# curl's exit code for a refused connection, or for a timeout.
no_connection() { [[ $1 == 7 || $1 == 28 ]]; }

# Enqueues enough jobs to keep every worker busy for a while, and two that wait.
queue_statistics() {
  local workers jobs deadline=$((SECONDS + patience)) queue='/api/queues/%2F/jobs?columns=name,messages_ready,messages_unacknowledged,messages'
  row 2.5 "the broker's management UI requires credentials"
  forward service/demo-rabbitmq 15672
  ask "http://$forwarded" GET /api/overview
  status_is 401
  credentials="user = $(quoted "$(secret demo-rabbitmq username):$(secret demo-rabbitmq password)")"

  row 2.5 "the broker's management UI"
  ask "http://$forwarded" GET /
  status_is 200
  right "a page" test "${type%%;*}" = text/html

  row 2.5 "Ready, Unacked, and Total: Ready plus Unacked"
  workers=$(kubectl get sst demo --namespace default --output jsonpath='{.spec.workers.replicas}')
  # Without a worker no job would ever be unacknowledged.
  [[ ${workers:-1} != 0 ]] || die "the stack demo has no worker" "start one: kubectl scale sst/demo --replicas=1"
  for ((jobs = 0; jobs < ${workers:-1} + 2; jobs++)); do
    credentials='' ask "$gateway" POST /api/jobs '{"task":"wait","ms":12000}'
    status_is 202
  done
  until send "http://$forwarded" GET "$queue" && holds '.messages_ready > 0 and .messages_unacknowledged > 0'; do
    if ((SECONDS >= deadline)); then break; fi
    sleep 1
  done
  show "GET $queue"
  status_is 200
  body_is "jobs that are ready and unacked" '.messages_ready > 0 and .messages_unacknowledged > 0'
  body_is "a total that is the sum of both" '.messages == .messages_ready + .messages_unacknowledged'
  credentials=
}

vector_database() {
  local points
  points='{"points":[{"id":1,"vector":[0.05,0.61,0.76,0.74],"payload":{"title":"one","category":"a"}},
    {"id":2,"vector":[0.19,0.81,0.75,0.11],"payload":{"title":"two","category":"b"}},
    {"id":3,"vector":[0.36,0.55,0.47,0.94],"payload":{"title":"three","category":"a"}}]}'
  row 4.4 "the vector database requires its key"
  forward service/demo-qdrant 6333
  ask "http://$forwarded" GET /collections
  status_is 401
  credentials="header = $(quoted "api-key: $(secret demo-qdrant api-key)")"
  store=http://$forwarded

  row 4.4 "PUT /collections/<collection_name>: collection created"
  ask "$store" PUT "/collections/$collection" '{"vectors":{"size":4,"distance":"Cosine"}}'
  status_is 200
  body_is "the result true" '.status == "ok" and .result == true'

  row 4.4 "upsert points: success of storing"
  ask "$store" PUT "/collections/$collection/points?wait=true" "$(jq --compact-output . <<<"$points")"
  status_is 200
  body_is "the status completed" '.status == "ok" and .result.status == "completed"'

  row 4.4 "query by vector: list of results with id, score, payload"
  ask "$store" POST "/collections/$collection/points/search" '{"vector":[0.2,0.1,0.9,0.7],"limit":3,"with_payload":true}'
  status_is 200
  are_results .result '[1,3,2]'

  row 4.4 "query by vector, by the store's newer path"
  ask "$store" POST "/collections/$collection/points/query" '{"query":[0.2,0.1,0.9,0.7],"limit":3,"with_payload":true}'
  status_is 200
  are_results .result.points '[1,3,2]'

  row 4.4 "the metadata filter: only points whose payload matches"
  ask "$store" POST "/collections/$collection/points/search" \
    '{"vector":[0.2,0.1,0.9,0.7],"limit":3,"with_payload":true,"filter":{"must":[{"key":"category","match":{"value":"b"}}]}}'
  status_is 200
  are_results .result '[2]'
}

# are_results <path> <ids>: checks the points in this order, by descending score.
are_results() {
  body_is "the points $2 with id, score and payload" \
    "[$1[].id] == $2 and all($1[]; (.score | type == \"number\") and (.payload.title | type == \"string\"))"
  body_is "descending scores" "[$1[].score] | . == (sort | reverse)"
}

command -v jq >/dev/null || step "Install jq" apt_install jq
[[ $(kubectl config current-context 2>/dev/null) == "kind-$CLUSTER_NAME" ]] \
  || die "kubectl's current context is not kind-$CLUSTER_NAME" "run 'make up', or kubectl config use-context kind-$CLUSTER_NAME"
kubectl wait --namespace default --for=condition=Ready sst/demo --timeout 2m >/dev/null \
  || die "the stack demo is not ready after 2 min" "read kubectl describe sst demo; 'make up' applies the stack and waits for it"
gateway_routes
app_routes
queue_statistics
vector_database

if ((${#wrong[@]} > 0)); then
  printf '\nThese answers differ from the tables of the specification:\n'
  printf '  %s\n' "${wrong[@]}"
  exit 1
fi
printf '\nEvery answer matches the tables 2.5, 4.1, 4.3 and 4.4 of the specification.\n'
