# shellcheck shell=bash
# The checks of contract.sh for RabbitMQ.
# shellcheck disable=SC2154 # container, work and the names of images come from contract.sh

# manage <password> <path> curl-arguments...: sends a request to the management API; prints
# the status code after the answer.
manage() {
  local password=$1 path=$2
  shift 2
  in_container curl --silent --max-time 10 --user "shortener:$password" --write-out ' %{http_code}' \
    --header 'content-type: application/json' "$@" "http://127.0.0.1:15672/api/$path"
}

manages() { [[ $(manage secret overview) == *' 200' ]]; }

manages_version() { manage secret overview | sed -n 's/.*"rabbitmq_version":"\([^"]*\)".*/\1/p'; }

# The salted hash of `secret` with a salt of zeros, in the form of RabbitMQ's definitions.
definitions() {
  local salt='\0\0\0\0' digest
  digest=$( (printf '%b' "$salt"; printf 'secret') | sha256sum | cut -d ' ' -f 1 | sed 's/../\\x&/g')
  cat <<JSON
{
  "users": [{"name": "shortener", "tags": ["administrator"], "hashing_algorithm": "rabbit_password_hashing_sha256",
    "password_hash": "$(printf '%b' "$salt$digest" | base64)"}],
  "vhosts": [{"name": "/"}],
  "permissions": [{"user": "shortener", "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"}],
  "policies": [{"vhost": "/", "name": "shortener-jobs", "pattern": "^jobs$", "apply-to": "queues", "priority": 0,
    "definition": {"delivery-limit": 5, "overflow": "reject-publish"}}]
}
JSON
}

# Starts it as the operator does: with its configuration in folders of our own, and everything it
# writes beside the data in another.
start_rabbitmq() {
  docker run --detach --name "$container" "${restrictions[@]}" --user 999:999 \
    --volume "$work/data:/var/lib/rabbitmq" --volume "$work/home:/run/rabbitmq" --volume "$work/config:/etc/shortener:ro" \
    --env HOME=/run/rabbitmq --env RABBITMQ_LOG_BASE=/run/rabbitmq --env RABBITMQ_LOGS=- \
    --env RABBITMQ_CONFIG_FILE=/etc/shortener/rabbitmq.conf \
    --env RABBITMQ_ENABLED_PLUGINS_FILE=/etc/shortener/enabled_plugins \
    --env RABBITMQ_NODENAME=rabbit@localhost --env ERL_MAX_PORTS=4096 --env ERL_EPMD_ADDRESS=127.0.0.1 \
    "$rabbitmq_image" >/dev/null
  await manages
}

check_rabbitmq() {
  local queue='{"durable": true, "arguments": {"x-queue-type": "quorum"}}'
  local message='{"properties": {"delivery_mode": 2}, "routing_key": "jobs", "payload": "{}", "payload_encoding": "string"}'
  local take='{"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"}'
  mkdir "$work/config"
  printf 'load_definitions = /etc/shortener/definitions.json\n' >"$work/config/rabbitmq.conf"
  printf '[rabbitmq_management,rabbitmq_prometheus].\n' >"$work/config/enabled_plugins"
  definitions >"$work/config/definitions.json"

  start_rabbitmq
  is_named_by_version "$rabbitmq_image" manages_version
  expect "it runs as 999 with a read-only root" "999 999" "$(in_container id -u) $(in_container id -g)"
  expect "the policy of the definitions exists" yes \
    "$(says '"delivery-limit":5' manage secret policies/%2f/shortener-jobs)"
  expect "a wrong password is refused" 401 "$(manage wrong overview | sed 's/.* //')"
  expect "the user guest of a fresh server does not exist" 401 \
    "$(in_container curl --silent --user guest:guest --output /dev/null --write-out '%{http_code}' \
      http://127.0.0.1:15672/api/overview)"
  expect "a quorum queue can be declared" 201 "$(manage secret queues/%2f/jobs --request PUT --data "$queue" | sed 's/.* //')"
  expect "a message is accepted" '{"routed":true} 200' \
    "$(manage secret exchanges/%2f/amq.default/publish --request POST --data "$message")"
  expect "its metrics count what a full queue drops" yes \
    "$(says 'rabbitmq_global_messages_dead_lettered_maxlen_total{' \
      in_container curl --silent --max-time 10 http://127.0.0.1:15692/metrics)"
  expect "the stop signal stops it in order" 0 "$(stop_container)"
  docker rm "$container" >/dev/null

  start_rabbitmq
  expect "a restart keeps the message" yes \
    "$(says '"payload":"{}"' manage secret queues/%2f/jobs/get --request POST --data "$take")"
  docker rm --force "$container" >/dev/null
}
