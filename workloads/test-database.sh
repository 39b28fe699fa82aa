#!/usr/bin/env bash
# Starts a temporary PostgreSQL server, runs a command with its address in DATABASE_URL, and removes the server.
#
#   workloads/test-database.sh cargo test -p shortener-app
# shellcheck source=test-lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/test-lib.sh"

image=$(store_image POSTGRES_IMAGE)
port=$(free_ports 1)
# The data need not survive a crash, so no write waits for the disk.
settings=(
  -c "port=$port" -c listen_addresses=127.0.0.1 -c fsync=off -c synchronous_commit=off -c full_page_writes=off
  -c max_connections=300 -c shared_buffers=32MB
)
start_container "$image" --tmpfs /var/lib/postgresql --shm-size 256m \
  --env PGDATA=/var/lib/postgresql/test --env POSTGRES_HOST_AUTH_METHOD=trust \
  --env 'POSTGRES_INITDB_ARGS=--encoding UTF8 --locale C --no-sync' -- \
  postgres "${settings[@]}"
await_container PostgreSQL docker exec "$container" pg_isready --quiet --host 127.0.0.1 --port "$port"

status=0
DATABASE_URL="postgres://postgres@127.0.0.1:$port/postgres" "$@" || status=$?
exit "$status"
