#!/usr/bin/env bash
# Applies the sample stack, waits until it is ready, and demonstrates it: shortens a link, and uses each of its profiles.
#
#   sample.sh        the whole stack
#   sample.sh early  with its first profiles only, unless the cluster has the stack already
# shellcheck source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=forward.sh
. "$cluster_dir/forward.sh"
# shellcheck source=show.sh
. "$cluster_dir/show.sh"

url=http://localhost:$GATEWAY_PORT
if [[ $IP_FAMILY == ipv6 ]]; then url="http://[::1]:$GATEWAY_PORT"; fi
target='https://example.com/a?b=c'
state=$cache/clusters/$CLUSTER_NAME
code_file=$state/code
trace_file=$state/trace
shown_file=$state/shown

# apply_sample [early]
apply_sample() {
  local sample=$repo/e2e/samples/demo.yaml
  if [[ ${1:-} == early ]]; then
    kubectl patch --local --filename "$sample" --type merge --patch '{"spec":{"profiles":["caching","queue"]}}' \
      --output yaml >"$state/demo.yaml"
    sample=$state/demo.yaml
  fi
  kubectl apply --namespace default --filename "$sample"
}

# The tags stay the same while the code changes: pods that run an older image of their tag are replaced.
renew() {
  local component=$1 wanted file=$state/$1-image
  wanted=$(docker image inspect --format '{{.Id}}' "$local_images/$component:$version")
  if [[ -f $file && $(<"$file") != "$wanted" ]]; then
    kubectl rollout restart "deployment/demo-$component" --namespace default
    kubectl rollout status "deployment/demo-$component" --namespace default --timeout 5m
  fi
  printf '%s\n' "$wanted" >"$file"
}

renew_pods() {
  renew app
  if has_profile queue; then renew worker; fi
}

has_profile() {
  [[ $(kubectl get sst demo --namespace default --output jsonpath='{.spec.profiles}') == *"\"$1\""* ]]
}

# The time limit allows for new stores on a machine with two cores.
wait_ready() {
  local generation
  generation=$(kubectl get sst demo --namespace default --output jsonpath='{.metadata.generation}')
  # A stack is ready as soon as it serves. The steps of the demonstration need every part.
  kubectl wait --namespace default --for=jsonpath='{.status.observedGeneration}'="$generation" sst/demo --timeout 2m \
    && kubectl wait --namespace default --for=condition=Ready sst/demo --timeout 10m \
    && kubectl wait --namespace default --for=condition=Progressing=false sst/demo --timeout 10m || {
    kubectl get sst,pods --namespace default
    kubectl get sst demo --namespace default \
      --output jsonpath='{range .status.conditions[*]}{.type}={.status} {.reason}: {.message}{"\n"}{end}'
    return 1
  }
}

next_commands() {
  cat <<EOT

ShortenerStack demo is ready at $url$1
$(cut -c 1-600 "$shown_file")

Next:
  kubectl get sst
  kubectl describe sst demo
  curl -si -X POST localhost:$GATEWAY_PORT/api/shorten -H 'content-type: application/json' -d '{"url":"https://example.com/"}'
  kubectl scale sst/demo --replicas=3
  make down
EOT
}

# Shows a profile once, when the stack has it.
show_profile() {
  local profile=$1 remedy=$2 title=$3
  shift 3
  if has_profile "$profile" && ! is_shown "$*"; then
    remedy=$remedy step "$title" "$@"
    mark_shown "$*"
  fi
}

# The steps that `sample.sh early` has shown in this run.
is_shown() { grep -qxF "$1" "$steps_file" 2>/dev/null; }
mark_shown() { printf '%s\n' "$1" >>"$steps_file"; }

mkdir -p "$state"
steps_file=$state/steps
remains=
if [[ ${1:-} == early ]]; then rm -f "$steps_file"; fi
if [[ ! -e $steps_file ]]; then : >"$shown_file"; fi
if [[ ${1:-} == early ]]; then
  if kubectl get sst demo --namespace default >/dev/null 2>&1; then exit; fi
  remains=" with the profiles caching and queue. The others follow in some minutes"
fi
remedy="read the API server's answer above, and kubectl -n shortener-system logs deploy/shortener-operator" \
  step "Apply the sample stack" apply_sample "$@"
remedy="kubectl describe sst demo; kubectl -n shortener-system logs deploy/shortener-operator" \
  step "Wait until the stack is ready" wait_ready
remedy="kubectl describe pods -l 'app.kubernetes.io/component in (app, worker)'" step "Replace pods that run an older image" renew_pods
if ! is_shown show_link; then
  remedy="kubectl -n ingress-nginx logs deploy/ingress-nginx-controller; kubectl logs deploy/demo-app" \
    step "Shorten a link through the gateway and follow it" show_link
  mark_shown show_link
fi
show_profile caching "kubectl logs demo-cache-0; kubectl logs deploy/demo-app" "Follow the link once more, from the cache" show_caching
show_profile queue "kubectl logs deploy/demo-worker; kubectl logs demo-rabbitmq-0" \
  "Enqueue a job and wait until a worker has done it" show_queue
show_profile queue "kubectl logs deploy/demo-app; kubectl logs deploy/demo-worker" \
  "Find the job's trace id in the logs of the app and the worker" show_trace
show_profile observability "kubectl logs deploy/demo-otel; kubectl logs deploy/demo-app" \
  "Wait until traces and logs arrive at the collector" show_observability
show_profile vector "kubectl logs demo-qdrant-0; kubectl logs deploy/demo-app; kubectl logs deploy/demo-worker" \
  "Store a document and find it by its vector" show_vector
next_commands "$remains"
if [[ -z $remains ]]; then rm -f "$steps_file"; fi
