#!/usr/bin/env bash
# Applies the sample stack, waits until it is ready, shortens a link through the public gateway and follows it. Then each
# of its profiles shows that it works.
# shellcheck source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

url=http://localhost:$GATEWAY_PORT
target='https://example.com/a?b=c'
state=$cache/clusters/$CLUSTER_NAME
link_file=$state/link
shown_file=$state/shown

apply_sample() {
  kubectl apply --namespace default --filename "$repo/e2e/samples/demo.yaml"
}

# The tags stay the same while the code changes: pods that run an older image of their tag are replaced.
renew() {
  local component=$1 wanted file=$state/$1-image
  wanted=$(docker image inspect --format '{{.Id}}' "shortenerstack/$component:$version")
  if [[ -f $file && $(<"$file") != "$wanted" ]]; then
    kubectl rollout restart "deployment/demo-$component" --namespace default
    kubectl rollout status "deployment/demo-$component" --namespace default --timeout 3m
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

wait_ready() {
  kubectl wait --namespace default --for=condition=Ready sst/demo --timeout 5m || {
    kubectl get sst,pods --namespace default
    kubectl get sst demo --namespace default \
      --output jsonpath='{range .status.conditions[*]}{.type}={.status} {.reason}: {.message}{"\n"}{end}'
    return 1
  }
}

# The ingress controller takes a moment to learn of a new stack, so the first request is repeated for a while.
shorten_and_follow() {
  local deadline=$((SECONDS + 60)) answer code location
  until answer=$(curl -sS --fail --max-time 10 -X POST "$url/api/shorten" \
    -H 'content-type: application/json' -d "{\"url\":\"$target\"}") && [[ $answer == *'"code"'* ]]; do
    if ((SECONDS >= deadline)); then
      curl -si --max-time 10 "$url/api/health"
      return 1
    fi
    sleep 0.5
  done
  code=$(sed -E 's/.*"code" *: *"([^"]+)".*/\1/' <<<"$answer")
  location=$(curl -sS --max-time 10 -o /dev/null -w '%{http_code} %{redirect_url}' "$url/$code")
  if [[ $location != "302 $target" ]]; then
    echo "expected a redirect to $target, got: $location"
    return 1
  fi
  printf '%s\n' "$url/$code" >"$link_file"
}

# await <what> command...: until it succeeds, a minute at most.
await() {
  local what=$1 deadline=$((SECONDS + 60))
  shift
  until "$@"; do
    if ((SECONDS >= deadline)); then
      echo "waited a minute for: $what"
      return 1
    fi
    sleep 0.5
  done
}

# Each replica of the app counts for itself, and the gateway asks any of them.
hit_is_counted() {
  local hits
  curl -sS --max-time 10 -o /dev/null "$(cat "$link_file")" || return
  hits=$(curl -sS --fail --max-time 10 "$url/api/metrics" | sed -n 's/^cache_requests_total{result="hit"} //p') || return
  ((${hits%%.*} > 0)) 2>/dev/null || return
  echo "cache: the link was followed from the cache (cache_requests_total{result=\"hit\"} $hits)" >>"$shown_file"
}

show_caching() { await "a redirect from the cache" hit_is_counted; }

job_is_done() { [[ $(curl -sS --max-time 10 "$url/jobs/$1") == *'"status":"done"'* ]]; }

job_is_logged() {
  local line
  line=$(kubectl logs deployment/demo-worker --namespace default --container worker | grep '"body":"job_done"' | grep "$1") || return
  echo "queue: job $1 was done by $(sed -E 's/.*"host":"([^"]+)".*/\1/' <<<"$line")," \
    "trace $(sed -E 's/.*"trace_id":"([^"]+)".*/\1/' <<<"$line")" >>"$shown_file"
}

show_queue() {
  local answer id
  answer=$(curl -sS --fail --max-time 10 -X POST "$url/api/jobs" -H 'content-type: application/json' -d '{"task":"email","id":1}')
  id=$(sed -E 's/.*"id" *: *"([^"]+)".*/\1/' <<<"$answer")
  await "job $id is done" job_is_done "$id"
  await "the worker's log of job $id" job_is_logged "$id"
}

next_commands() {
  cat <<EOT

ShortenerStack demo is ready at $url
  $(cat "$link_file")  leads to  $target
$(sed 's/^/  /' "$shown_file")

Next:
  kubectl get sst
  kubectl describe sst demo
  curl -si -X POST localhost:$GATEWAY_PORT/api/shorten -H 'content-type: application/json' -d '{"url":"https://example.com/"}'
  make down
EOT
}

step "Apply the sample stack" apply_sample
remedy="kubectl describe sst demo; kubectl -n shortener-system logs deploy/shortener-operator" \
  step "Wait until the stack is ready" wait_ready
remedy="kubectl describe pods -l app.kubernetes.io/component=app" step "Have the newest images running" renew_pods
remedy="kubectl -n ingress-nginx logs deploy/ingress-nginx-controller" \
  step "Shorten a link through the gateway and follow it" shorten_and_follow
: >"$shown_file"
if has_profile caching; then
  remedy="kubectl logs demo-cache-0; kubectl logs deploy/demo-app" step "Follow it from the cache" show_caching
fi
if has_profile queue; then
  remedy="kubectl logs deploy/demo-worker; kubectl logs demo-rabbitmq-0" step "Have a job done by a worker" show_queue
fi
next_commands
