#!/usr/bin/env bash
# Starts a throwaway RabbitMQ server, runs a command with TEST_BROKER_URL (AMQP) and TEST_BROKER_API (management)
# pointing to it, and removes the server.
#
#   workloads/test-broker.sh cargo test -p shortener-worker
set -euo pipefail

if [ $# -eq 0 ]; then
  echo "usage: $0 <command> [arguments]" >&2
  exit 64
fi

# The packaged wrapper in PATH insists on the system's own server; this is the server itself.
program=/usr/lib/rabbitmq/bin/rabbitmq-server

install_rabbitmq() {
  if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    echo "test-broker: RabbitMQ is missing; install it (Debian: apt-get install rabbitmq-server)" >&2
    exit 69
  fi
  echo "test-broker: installing rabbitmq-server" >&2
  {
    apt-get update -q
    # At run level 1 the package does not start a server of its own.
    RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends rabbitmq-server
  } >&2
}

[ -x "$program" ] || install_rabbitmq

# The server need not be root, and its files must not be everybody's.
as_owner=()
directory=$(mktemp -d "${TMPDIR:-/tmp}/test-broker.XXXXXX")
if [ "$(id -u)" -eq 0 ]; then
  owner=$(id -un rabbitmq 2>/dev/null || echo nobody)
  chown "$owner" "$directory"
  as_owner=(setpriv --reuid "$owner" --regid "$(id -g "$owner")" --clear-groups)
fi

children=()
cleanup() {
  # Nothing here has to survive, so nothing is asked to end in good order.
  for child in "${children[@]}"; do
    kill -KILL -- "-$child" 2>/dev/null || kill -KILL "$child" 2>/dev/null || true
    wait "$child" 2>/dev/null || true
  done
  rm -rf "$directory"
}
trap cleanup EXIT

# background <log> <command>: as the owner, in a process group of its own, so that its children end with it.
background() {
  local log=$1
  shift
  (cd "$directory" && exec setsid "${as_owner[@]}" env -i PATH="$PATH" HOME="$directory" LANG=C.UTF-8 "${settings[@]}" "$@") \
    >"$directory/$log" 2>&1 </dev/null &
  children+=($!)
}

answers() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

free_ports() {
  local port found=0
  for port in $(shuf -i 20000-29999 -n 200); do
    answers "$port" && continue
    echo "$port"
    found=$((found + 1))
    [ "$found" -lt "$1" ] || return 0
  done
}

mapfile -t ports < <(free_ports 4)
amqp=${ports[0]} management=${ports[1]} distribution=${ports[2]} names=${ports[3]}

cat >"$directory/rabbitmq.conf" <<SETTINGS
listeners.tcp.local = 127.0.0.1:$amqp
management.tcp.ip = 127.0.0.1
management.tcp.port = $management
log.file.level = warning
# The machine's own shortage of disk space is not what the tests are about.
disk_free_limit.absolute = 1MB
SETTINGS
echo '[rabbitmq_management].' >"$directory/enabled_plugins"

settings=(
  RABBITMQ_NODENAME=rabbit@localhost
  RABBITMQ_DIST_PORT="$distribution"
  RABBITMQ_CONF_ENV_FILE=/dev/null
  RABBITMQ_CONFIG_FILE="$directory/rabbitmq.conf"
  RABBITMQ_ENABLED_PLUGINS_FILE="$directory/enabled_plugins"
  RABBITMQ_MNESIA_BASE="$directory/mnesia"
  RABBITMQ_LOG_BASE="$directory/log"
  RABBITMQ_PID_FILE="$directory/pid"
  # Erlang sizes a table by the limit of open files, which may be huge.
  ERL_MAX_PORTS=4096
  # Schedulers that have nothing to do sleep.
  "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=+sbwt none +sbwtdcpu none +sbwtdio none"
  # A register of names of its own, which ends with the server.
  ERL_EPMD_ADDRESS=127.0.0.1
  ERL_EPMD_PORT="$names"
)
background epmd.log epmd
background server.log "$program"

waited=0
until answers "$amqp" && answers "$management"; do
  if [ "$waited" -ge 600 ] || ! kill -0 "${children[1]}" 2>/dev/null; then
    echo "test-broker: RabbitMQ did not start" >&2
    cat "$directory/server.log" "$directory"/log/*.log >&2 2>/dev/null || true
    exit 70
  fi
  sleep 0.2
  waited=$((waited + 1))
done

status=0
TEST_BROKER_URL="amqp://guest:guest@127.0.0.1:$amqp" TEST_BROKER_API="127.0.0.1:$management" "$@" || status=$?
exit "$status"
