#!/usr/bin/env bash
# Applies the sample stack, waits until it is ready, shortens a link through the public gateway and follows it.
# shellcheck source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

url=http://localhost:$GATEWAY_PORT
target='https://example.com/a?b=c'
link_file=$cache/clusters/$CLUSTER_NAME/link
app_file=$cache/clusters/$CLUSTER_NAME/app-image

apply_sample() {
  kubectl apply --namespace default --filename "$repo/e2e/samples/demo.yaml"
}

# The app's tag stays the same while its code changes: pods that run an older image of that tag are replaced.
renew_app() {
  local wanted
  wanted=$(docker image inspect --format '{{.Id}}' "shortenerstack/app:$version")
  if [[ -f $app_file && $(<"$app_file") != "$wanted" ]]; then
    kubectl rollout restart deployment/demo-app --namespace default
    kubectl rollout status deployment/demo-app --namespace default --timeout 3m
  fi
  printf '%s\n' "$wanted" >"$app_file"
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

next_commands() {
  cat <<EOT

ShortenerStack demo is ready at $url
  $(cat "$link_file")  leads to  $target

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
remedy="kubectl describe pods -l app.kubernetes.io/component=app" step "Have the newest app running" renew_app
remedy="kubectl -n ingress-nginx logs deploy/ingress-nginx-controller" \
  step "Shorten a link through the gateway and follow it" shorten_and_follow
next_commands
