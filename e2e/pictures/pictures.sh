#!/usr/bin/env bash
# Draws the pictures of the pages from the running stack of `make up`: what kubectl shows, and a trace of a job from the
# request to the worker. For the trace, the stack exports to the tests' stand-in for a backend for a moment.
# shellcheck source=../cluster/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../cluster/lib.sh"
# shellcheck source=../cluster/forward.sh
. "$cluster_dir/forward.sh"

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

backend() {
  kubectl patch sst demo --type merge --patch "{\"spec\":{\"observability\":{\"backend\":$1}}}"
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

mkdir -p "$pictures"
step "Compile the plugin of kubectl" cargo build --profile quick --target "$(host_triple)" -p shortener-operator --bin kubectl-shortener
PATH=$CARGO_TARGET_DIR/$(host_triple)/quick:$PATH
spans=$(mktemp)
trap 'end_forwards; kubectl delete --ignore-not-found pod/otlp-sink service/otlp-sink >/dev/null; rm -f "$spans"' EXIT
kubectl run otlp-sink --image "$local_images/otlp-sink:$version" --image-pull-policy Never --port 4317 --expose
kubectl wait --for condition=Ready pod/otlp-sink --timeout 1m
forward pod/otlp-sink 8080
backend '{"external":{"endpoint":"http://otlp-sink.default:4317"}}'
for attempt in {1..12}; do
  if job_is_traced; then break; fi
  if ((attempt == 12)); then die "no trace reached the backend in 2 minutes" "kubectl logs deploy/demo-otel"; fi
done
jq -r --arg title "A trace: a request enqueues a job, and a worker processes it" -f "$here/trace.jq" "$spans" >"$pictures/trace.svg"
backend null
kubectl wait --for=condition=Progressing=false sst/demo --timeout 2m
terminal status.svg "kubectl get sst and kubectl shortener status of a stack with every profile" \
  "kubectl get sst" "kubectl shortener status demo"
say "wrote $pictures"
