# shellcheck shell=bash
# Shows that each component of the sample stack works. The functions show_* are steps of sample.sh. They write the
# requests with their answers and times to $shown_file. Sourced by sample.sh.
# shellcheck disable=SC2154 # url, target, state, code_file, trace_file and shown_file come from sample.sh

# Seconds in which the gateway, the broker and the workers of a new stack find each other, on a busy machine.
patience=180
# The last request through the gateway, with its answer.
asked=

# ask <method> <path> [JSON]: sends a request through the public gateway. Sets status,
# location, milliseconds and answer.
ask() {
  local method=$1 path=$2 told seconds request=(--request "$1")
  if (($# > 2)); then request+=(--header 'content-type: application/json' --data "$3"); fi
  : >"$state/answer"
  told=$(curl --silent --show-error --max-time 20 "${request[@]}" --output "$state/answer" \
    --write-out '%{http_code} %{time_total} %{redirect_url}' "$url$path") || return
  read -r status seconds location <<<"$told"
  milliseconds=$((10#${seconds/./} / 1000))
  answer=$(<"$state/answer")
  asked="$method $path: $status after $milliseconds ms${location:+, Location: $location}${answer:+, $answer}"
}

# text <field> [JSON]: prints the text of a field of the last answer, or of a log line.
text() { sed -nE "s/.*\"$1\" *: *\"([^\"]+)\".*/\1/p" <<<"${2-$answer}"; }

# note <topic> <what was seen>
note() { printf '  %-9s %s\n' "$@" >>"$shown_file"; }

# await <what> command...: repeats the command until it succeeds.
await() {
  local what=$1 deadline=$((SECONDS + patience))
  shift
  until "$@"; do
    if ((SECONDS >= deadline)); then
      echo "timed out after $patience s waiting for: $what"
      if [[ -n $asked ]]; then echo "the last answer: $asked"; fi
      return 1
    fi
    sleep 1
  done
}

# The ingress controller takes a moment to learn of a new stack.
link_is_made() { ask POST /api/shorten "{\"url\":\"$target\"}" && [[ $status == 201 ]]; }

show_link() {
  local code
  await "POST /api/shorten to answer 201" link_is_made
  code=$(text code)
  note link "$asked"
  ask GET "/api/links/$code"
  if [[ "$status $location" != "302 $target" ]]; then
    echo "expected a redirect to $target, got: $asked"
    return 1
  fi
  note '' "$asked"
  printf '%s\n' "$code" >"$code_file"
}

# Each replica of the app has its own counters, and the gateway may choose any replica.
hit_is_counted() {
  local followed hits
  ask GET "/api/links/$(<"$code_file")" && [[ $status == 302 ]] || return
  followed=$asked
  ask GET /api/metrics || return
  hits=$(sed -n 's/^cache_requests_total{result="hit"} //p' <<<"$answer")
  # The page is too long to print if this is the last request.
  asked="GET /api/metrics: cache_requests_total{result=\"hit\"} ${hits:-is absent}"
  [[ $hits =~ ^[1-9] ]] || return
  note cache "$followed"
  note '' "$asked"
}

show_caching() { await "a redirect that counts as a hit of the cache" hit_is_counted; }

job_is_accepted() { ask POST /api/jobs '{"task":"email","id":1}' && [[ $status == 202 ]]; }

# The gateway has no route /api/jobs/<id>, so this request takes the catch-all route.
job_is_done() { ask GET "/jobs/$1" && [[ $(text status) == 'done' ]]; }

show_queue() {
  local id
  await "POST /api/jobs to answer 202" job_is_accepted
  note queue "$asked"
  id=$(text id)
  text trace_id >"$trace_file"
  await "job $id to be done" job_is_done "$id"
  note '' "$asked"
}

# logged <component>: prints the lines of the component's pods with the trace of the job.
logged() {
  kubectl logs --namespace default --selector "app.kubernetes.io/instance=demo,app.kubernetes.io/component=$1" \
    --container "$1" --tail -1 --since 15m --max-log-requests 50 | grep "\"trace_id\":\"$(<"$trace_file")\""
}

trace_is_logged() {
  local lines event line
  lines=$(logged app && logged worker) || return
  for event in request job_start job_done; do [[ $lines == *"\"body\":\"$event\""* ]] || return; done
  note trace "$(<"$trace_file"), of the answer to POST /api/jobs, in the logs:"
  for event in request job_start job_done; do
    line=$(grep -m 1 "\"body\":\"$event\"" <<<"$lines")
    note '' "$(text timestamp "$line") $event on $(text host "$line")"
  done
}

show_trace() { await "request, job_start and job_done with one trace id in the logs" trace_is_logged; }

# Sends a request, because the stack may have got its collector after the other steps, and reads the collector's own
# counters of records from the app and the workers.
telemetry_arrived() {
  local taken
  ask GET "/api/links/$(<"$code_file")" || return
  taken=$(curl --silent --fail --max-time 20 "http://$forwarded/metrics" | awk '
    /^otelcol_receiver_accepted_spans[_{]/ { spans += $NF }
    /^otelcol_receiver_accepted_log_records[_{]/ { records += $NF }
    END { if (spans > 0 && records > 0) print spans " spans and " records " log records" }') && [[ -n $taken ]] || return
  note collector "has taken $taken"
}

show_observability() {
  trap end_forwards EXIT
  forward deployment/demo-otel 8888
  await "spans and log records at the collector" telemetry_arrived
}

# An id and a category that other documents are unlikely to have.
document_is_stored() {
  ask PUT /api/docs/8080 '{"vector":[0.1,0.9,0.2,0.4],"payload":{"title":"A guide","category":"make up"}}' \
    && [[ $status == 20[012] ]]
}

document_is_found() {
  ask POST /api/docs/query '{"vector":[0.1,0.8,0.2,0.5],"limit":3,"with_payload":true,"filter":{"category":"make up"}}' \
    && [[ $status == 200 && $answer == *'"id":8080'* ]]
}

show_vector() {
  await "PUT /api/docs/8080 to store a document" document_is_stored
  note vector "$asked"
  await "POST /api/docs/query to find document 8080" document_is_found
  note '' "$asked"
}
