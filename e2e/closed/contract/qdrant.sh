# shellcheck shell=bash
# The checks of contract.sh for Qdrant.
# shellcheck disable=SC2154 # container, work and the names of images come from contract.sh

# store <curl arguments> <path>: prints the answer to a request with the key.
store() { in_container curl --silent --header "api-key: $key" "${@:1:$#-1}" "http://127.0.0.1:6333${!#}"; }

# send <method> <path> <body>
send() { store --request "$1" --header 'content-type: application/json' --data "$3" "$2"; }

status_of() { in_container curl --silent --output /dev/null --write-out '%{http_code}' "http://127.0.0.1:6333$1"; }

# grpc_status [curl arguments]: prints the status of a call that lists the collections and has an empty message. The
# trailer with the status follows the last byte of the answer, without a line break.
grpc_status() {
  in_container sh -c 'head -c 5 /dev/zero >/tmp/empty && curl --silent --http2-prior-knowledge --include --output - \
    --header "content-type: application/grpc" --header "te: trailers" --data-binary @/tmp/empty "$@" \
    http://127.0.0.1:6334/qdrant.Collections/List' sh "$@" | grep --text --only-matching 'grpc-status: [0-9]*' | cut -d ' ' -f 2
}

found() { send POST /collections/docs/points/search '{"vector":[1,0,0,0],"limit":2}' | sed -n 's/.*"result":\(.*\),"status.*/\1/p'; }

# Starts it as the operator does.
start_store() {
  docker run --detach --name "$container" "${restrictions[@]}" --user 1000:1000 --volume "$work/data:/qdrant/storage" \
    --tmpfs /qdrant/snapshots:mode=1777 --tmpfs /qdrant/init:mode=1777 \
    --env QDRANT__SERVICE__API_KEY="$key" --env QDRANT_INIT_FILE_PATH=/qdrant/init/.qdrant-initialized \
    --env QDRANT__STORAGE__SNAPSHOTS_PATH=/qdrant/snapshots --env QDRANT__TELEMETRY_DISABLED=true "$qdrant_image" \
    sh -c "$(<"$repo/operator/core/src/plan/stores/qdrant/start.sh")" >/dev/null
  await in_container curl --silent --fail http://127.0.0.1:6333/readyz
}

check_qdrant() {
  local key=secret before
  start_store
  expect "it runs as 1000 with a read-only root" "1000 1000" "$(in_container id -u) $(in_container id -g)"
  expect "it writes a file when it is ready" yes "$(in_container test -e /qdrant/init/.qdrant-initialized && echo yes)"
  expect "probes need no key" "200 200 200" "$(status_of /healthz) $(status_of /livez) $(status_of /readyz)"
  expect "a request without the key is refused" "401 16" "$(status_of /collections) $(grpc_status)"
  expect "a call with the key is answered" 0 "$(grpc_status --header "api-key: $key")"
  expect "a collection is created" yes \
    "$(says '"result":true' send PUT /collections/docs '{"vectors":{"size":4,"distance":"Cosine"}}')"
  expect "points are stored" yes "$(says completed send PUT '/collections/docs/points?wait=true' \
    '{"points":[{"id":1,"vector":[0,2,0,0]},{"id":2,"vector":[3,0,4,0]}]}')"
  before=$(found)
  expect "the nearest come first" '[{"id":2,"version":0,"score":0.6},{"id":1,"version":0,"score":0.0}]' "$before"
  docker kill "$container" >/dev/null
  docker rm "$container" >/dev/null

  start_store
  expect "stored points outlive a kill" "$before" "$(found)"
  expect "the stop signal stops it in order" 0 "$(stop_container)"
  docker rm "$container" >/dev/null

  docker run --detach --name "$container" "$qdrant_image" >/dev/null
  await in_container curl --silent --fail http://127.0.0.1:6333/readyz
  expect "without a configured key every request is answered" "200 0" "$(status_of /collections) $(grpc_status)"
  expect "it keeps collections in /qdrant/storage" yes "$(in_container test -d /qdrant/storage/collections && echo yes)"
  docker rm --force "$container" >/dev/null
}
