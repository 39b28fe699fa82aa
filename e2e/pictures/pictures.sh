#!/usr/bin/env bash
# Draws the pictures of the pages from the running stack of `make up`: what kubectl shows, a trace of a job from the
# request to the worker, and the dashboard. For the trace and the dashboard, the stack exports to the tests' stand-in for a backend
# for a while; for the dashboard, a Prometheus scrapes it while it has some load.
# shellcheck source=../cluster/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../cluster/lib.sh"
# shellcheck source=../cluster/forward.sh
. "$cluster_dir/forward.sh"
# shellcheck source=../images/names.sh
. "$repo/e2e/images/names.sh"

pictures=$repo/docs/pictures
here=$repo/e2e/pictures

# terminal <file> <title> <command>...: draws the commands with their output.
terminal() {
  local file=$1 title=$2 command output
  shift 2
  for command in "$@"; do
    # A command that fails ends the script: a picture shows no errors.
    output=$(bash -c "$command")
    printf '$ %s\n%s\n' "$command" "$output"
  done | jq -R -s -r --arg title "$title" -f "$here/terminal.jq" >"$pictures/$file"
}

# observe <observability>: changes these settings of the stack.
observe() {
  kubectl patch sst demo --type merge --patch "{\"spec\":{\"observability\":$1}}"
  kubectl rollout status deployment/demo-otel --timeout 2m
}

# Sends a job, and waits until the backend has its spans of both programs. It sees only jobs that were sent after the programs
# reached it, so the first ones may be lost.
job_is_traced() {
  local trace deadline=$((SECONDS + 10))
  trace=$(curl --silent --fail "localhost:$GATEWAY_PORT/api/jobs" --header 'content-type: application/json' \
    --data '{"task":"email","id":1}' | jq -r .trace_id) || return
  until curl --silent --fail "http://$forwarded/traces/$trace" >"$spans" && jq -e "$whole" "$spans" >/dev/null; do
    if ((SECONDS >= deadline)); then return 1; fi
    sleep 0.5
  done
}

# A condition on the spans of a trace that has come to its end: the worker's last span is that of the message.
whole='map(.service) as $all | ($all | index("app")) and ($all | index("worker")) and any(.[]; .kind == "CONSUMER")'

# ask <path> [JSON]: sends a request to the stack, and a POST if there is a body.
ask() { curl --silent --output /dev/null "localhost:$GATEWAY_PORT$1" ${2:+--header 'content-type: application/json' --data "$2"}; }

# Gives the stack some load of every kind for three minutes.
load() {
  local code number=0 end=$((SECONDS + 180))
  code=$(curl --silent --fail "localhost:$GATEWAY_PORT/api/shorten" --header 'content-type: application/json' \
    --data '{"url":"https://example.com/"}' | jq -r .code)
  while ((SECONDS < end)); do
    number=$((number + 1))
    for _ in {1..5}; do ask "/api/links/$code"; done
    ask "/api/links/unknown$number"
    ask /api/shorten "{\"url\":\"https://example.com/$number\"}"
    ask /api/jobs "{\"task\":\"email\",\"id\":$number}"
    ask /api/docs/query '{"vector":[0.1,0.8,0.3,0.4],"limit":3}'
    sleep 0.2
  done
}

# query <expression> <legend> <from> <to>: prints the series of an expression.
query() {
  curl --silent --fail --get "http://$forwarded/api/v1/query_range" --data-urlencode "query=$1" \
    --data "start=$3&end=$4&step=2" | jq --arg legend "$2" '.data.result[]
      | .metric as $labels
      | {name: ($legend | gsub("\\{\\{(?<label>\\w+)\\}\\}"; $labels[.label] // "")),
         points: [.values[] | [.[0], (.[1] | tonumber)] | select(.[1] | isnormal or . == 0)]}'
}

# Draws the dashboard with what Prometheus has seen of the load.
dashboard() {
  local from to panel expression legend
  step "Load the stack for three minutes" load
  to=$(date +%s)
  from=$((to - 120))
  jq -c '.panels[]' "$repo/operator/core/src/plan/monitoring/dashboard.json" \
    | sed 's/%NAMESPACE%/default/g; s/%STACK%/demo/g; s/\$__rate_interval/30s/g' \
    | while IFS= read -r panel; do
      jq -r '.targets[]? | [.expr, .legendFormat] | @tsv' <<<"$panel" \
        | while IFS=$'\t' read -r expression legend; do query "${expression//\\\\/\\}" "$legend" "$from" "$to"; done \
        | jq -s -c --argjson panel "$panel" '$panel + {series: .}'
    done \
    | jq -r -s --arg title "The dashboard of a stack with every profile" --argjson from "$from" --argjson to "$to" \
      -f "$here/dashboard.jq" >"$pictures/dashboard.svg"
}

use_context
mkdir -p "$pictures"
step "Compile the plugin of kubectl" cargo build --profile quick --target "$(host_triple)" -p shortener-operator --bin kubectl-shortener
PATH=$CARGO_TARGET_DIR/$(host_triple)/quick:$PATH
spans=$(mktemp)
trap 'end_forwards; kubectl delete --ignore-not-found pod/otlp-sink service/otlp-sink pod/prometheus configmap/prometheus >/dev/null; rm -f "$spans"' EXIT
kubectl run otlp-sink --image "$local_images/otlp-sink:$version" --image-pull-policy Never --port 4317 --expose
kubectl wait --for condition=Ready pod/otlp-sink --timeout 1m
forward pod/otlp-sink 8080
observe '{"backend":{"external":{"endpoint":"http://otlp-sink.default:4317"}}}'
for attempt in {1..12}; do
  if job_is_traced; then break; fi
  if ((attempt == 12)); then die "no trace reached the backend in 2 minutes" "kubectl logs deploy/demo-otel"; fi
done
jq -r --arg title "A trace: a request enqueues a job, and a worker processes it" -f "$here/trace.jq" "$spans" >"$pictures/trace.svg"
observe '{"scrapeFrom":[{"podSelector":{"matchLabels":{"app":"prometheus"}}}]}'
kubectl wait --for=condition=Progressing=false sst/demo --timeout 2m
sed "s|IMAGE|$prometheus_image|" "$here/prometheus.yaml" | kubectl apply --filename -
kubectl wait --for condition=Ready pod/prometheus --timeout 1m
forward pod/prometheus 9090
dashboard
observe '{"backend":null,"scrapeFrom":null}'
kubectl wait --for=condition=Progressing=false sst/demo --timeout 2m
terminal status.svg "kubectl get sst and kubectl shortener status of a stack with every profile" \
  "kubectl get sst" "kubectl shortener status demo"
say "wrote $pictures"
