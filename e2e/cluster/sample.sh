#!/usr/bin/env bash
# Applies the sample stack, waits until it is ready, and demonstrates it: shortens a link, and uses each of its profiles.
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

apply_sample() {
  kubectl apply --namespace default --filename "$repo/e2e/samples/demo.yaml"
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
  # A stack is ready as soon as it serves. The steps of the demonstration need every part.
  kubectl wait --namespace default --for=condition=Ready sst/demo --timeout 10m \
    && kubectl wait --namespace default --for=condition=Progressing=false sst/demo --timeout 10m || {
    kubectl get sst,pods --namespace default
    kubectl get sst demo --namespace default \
      --output jsonpath='{range .status.conditions[*]}{.type}={.status} {.reason}: {.message}{"\n"}{end}'
    return 1
  }
}

next_commands() {
  cat <<EOT

ShortenerStack demo is ready at $url
$(cut -c 1-600 "$shown_file")

Next:
  kubectl get sst
  kubectl describe sst demo
  curl -si -X POST localhost:$GATEWAY_PORT/api/shorten -H 'content-type: application/json' -d '{"url":"https://example.com/"}'
  kubectl scale sst/demo --replicas=3
  make down
EOT
}

mkdir -p "$state"
: >"$shown_file"
remedy="read the API server's answer above, and kubectl -n shortener-system logs deploy/shortener-operator" \
  step "Apply the sample stack" apply_sample
remedy="kubectl describe sst demo; kubectl -n shortener-system logs deploy/shortener-operator" \
  step "Wait until the stack is ready" wait_ready
remedy="kubectl describe pods -l 'app.kubernetes.io/component in (app, worker)'" step "Replace pods that run an older image" renew_pods
remedy="kubectl -n ingress-nginx logs deploy/ingress-nginx-controller; kubectl logs deploy/demo-app" \
  step "Shorten a link through the gateway and follow it" show_link
if has_profile caching; then
  remedy="kubectl logs demo-cache-0; kubectl logs deploy/demo-app" step "Follow the link once more, from the cache" show_caching
fi
if has_profile queue; then
  remedy="kubectl logs deploy/demo-worker; kubectl logs demo-rabbitmq-0" step "Enqueue a job and wait until a worker has done it" show_queue
  remedy="kubectl logs deploy/demo-app; kubectl logs deploy/demo-worker" \
    step "Find the job's trace id in the logs of the app and the worker" show_trace
fi
if has_profile observability; then
  remedy="kubectl logs deploy/demo-otel; kubectl logs deploy/demo-app" \
    step "Wait until traces and logs arrive at the collector" show_observability
fi
if has_profile vector; then
  remedy="kubectl logs demo-qdrant-0; kubectl logs deploy/demo-app; kubectl logs deploy/demo-worker" \
    step "Store a document and find it by its vector" show_vector
fi
next_commands
