#!/usr/bin/env bash
# Starts a temporary RabbitMQ server, runs a command with its addresses in TEST_BROKER_URL (AMQP) and
# TEST_BROKER_API (management), and removes the server.
#
#   workloads/test-broker.sh cargo test -p shortener-worker
# shellcheck source=test-lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/test-lib.sh"

image=$(store_image RABBITMQ_IMAGE)
mapfile -t ports < <(free_ports 4)
amqp=${ports[0]} management=${ports[1]} distribution=${ports[2]} names=${ports[3]}

# The server runs as a user of the image, which may not read this user's files, so its settings are passed in the
# environment. The low disk limit keeps a full disk from blocking the tests.
settings="listeners.tcp.local = 127.0.0.1:$amqp
management.tcp.ip = 127.0.0.1
management.tcp.port = $management
log.console = true
log.console.level = warning
disk_free_limit.absolute = 1MB"
# shellcheck disable=SC2016 # for the shell in the container
start='printf "%s\n" "$SETTINGS" >/tmp/rabbitmq.conf && echo "[rabbitmq_management]." >/tmp/enabled_plugins &&
  unset SETTINGS && exec docker-entrypoint.sh rabbitmq-server'
start_container "$image" --tmpfs /var/lib/rabbitmq:mode=1777 --entrypoint '' \
  --env "SETTINGS=$settings" --env RABBITMQ_CONFIG_FILE=/tmp/rabbitmq.conf \
  --env RABBITMQ_ENABLED_PLUGINS_FILE=/tmp/enabled_plugins --env RABBITMQ_NODENAME=rabbit@localhost \
  --env "RABBITMQ_DIST_PORT=$distribution" --env ERL_EPMD_ADDRESS=127.0.0.1 --env "ERL_EPMD_PORT=$names" \
  --env ERL_MAX_PORTS=4096 --env "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=+sbwt none +sbwtdcpu none +sbwtdio none" \
  -- sh -c "$start"
started() { answers "$amqp" && curl --silent --fail --user guest:guest "http://127.0.0.1:$management/api/overview"; }
await_container RabbitMQ started

status=0
TEST_BROKER_URL="amqp://guest:guest@127.0.0.1:$amqp" TEST_BROKER_API="127.0.0.1:$management" "$@" || status=$?
exit "$status"
