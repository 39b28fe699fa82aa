# shellcheck shell=bash
# The checks of contract.sh for the OpenTelemetry collector.
# shellcheck disable=SC2154 # container, work and the names of images come from contract.sh

check_collector() {
  local address span
  is_named_by_version "$collector_image" program_of "$collector_image" /otelcol --version
  cat >"$work/collector.yaml" <<'YAML'
extensions:
  health_check: {endpoint: "0.0.0.0:13133"}
receivers:
  otlp: {protocols: {grpc: {endpoint: "0.0.0.0:4317"}, http: {endpoint: "0.0.0.0:4318"}}}
processors:
  memory_limiter: {check_interval: 1s, limit_mib: 100}
  resource: {attributes: [{key: cluster, value: local, action: upsert}]}
  batch: {timeout: 100ms}
exporters:
  debug: {verbosity: detailed}
  otlp: {endpoint: "192.0.2.1:4317", tls: {insecure: true}}
  otlphttp: {endpoint: "http://192.0.2.1:4318"}
service:
  extensions: [health_check]
  pipelines:
    traces: {receivers: [otlp], processors: [memory_limiter, resource, batch], exporters: [debug]}
    logs: {receivers: [otlp], processors: [memory_limiter, batch], exporters: [debug, otlp, otlphttp]}
YAML
  span='{"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": "5b8efff798038103d269b633813fc60c",
    "spanId": "eee19b7ec3c1b174", "name": "checked", "startTimeUnixNano": "1", "endTimeUnixNano": "2"}]}]}]}'
  docker run --detach --name "$container" "${restrictions[@]}" --user 10001:10001 \
    --volume "$work/collector.yaml:/etc/otelcol/config.yaml:ro" "$collector_image" >/dev/null
  # This image has no shell.
  address=$(docker inspect --format '{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}' "$container")
  await curl --silent --fail "http://$address:13133/"
  expect "it accepts a span over HTTP" '{"partialSuccess":{}}' \
    "$(curl --silent --header 'content-type: application/json' --data "$span" "http://$address:4318/v1/traces")"
  await span_logged
  expect "the span went through the processors" yes "$(says 'cluster: Str(local)' docker logs "$container")"
  expect "the stop signal stops it in order" 0 "$(stop_container)"
  docker rm "$container" >/dev/null
}

span_logged() { [[ $(docker logs "$container" 2>&1) == *5b8efff798038103d269b633813fc60c* ]]; }
