#!/usr/bin/env bash
# Starts a throwaway PostgreSQL server, runs a command with DATABASE_URL pointing to it, and removes the server.
#
#   workloads/test-database.sh cargo test -p shortener-app
set -euo pipefail

if [ $# -eq 0 ]; then
  echo "usage: $0 <command> [arguments]" >&2
  exit 64
fi

find_binaries() {
  local candidates=(/usr/lib/postgresql/*/bin)
  if [ -x "${candidates[-1]}/postgres" ]; then
    echo "${candidates[-1]}"
  elif command -v postgres >/dev/null && command -v initdb >/dev/null; then
    dirname "$(command -v postgres)"
  fi
}

install_postgresql() {
  if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    echo "test-database: PostgreSQL is missing; install it (Debian: apt-get install postgresql-15)" >&2
    exit 69
  fi
  echo "test-database: installing postgresql-15" >&2
  # The package would otherwise create and start a server of its own.
  mkdir -p /etc/postgresql-common
  [ -e /etc/postgresql-common/createcluster.conf ] ||
    echo "create_main_cluster = false" >/etc/postgresql-common/createcluster.conf
  {
    apt-get update -q
    DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends postgresql-15
  } >&2
}

binaries=$(find_binaries)
if [ -z "$binaries" ]; then
  install_postgresql
  binaries=$(find_binaries)
fi

# PostgreSQL refuses to run as root.
as_owner=()
directory=$(mktemp -d "${TMPDIR:-/tmp}/test-database.XXXXXX")
if [ "$(id -u)" -eq 0 ]; then
  owner=$(id -un postgres 2>/dev/null || echo nobody)
  chown "$owner" "$directory"
  as_owner=(setpriv --reuid "$owner" --regid "$(id -g "$owner")" --clear-groups)
fi

server() {
  local program=$1
  shift
  (cd "$directory" && "${as_owner[@]}" "$binaries/$program" "$@")
}

cleanup() {
  server pg_ctl stop -D "$directory/data" -m immediate -s 2>/dev/null || true
  rm -rf "$directory"
}
trap cleanup EXIT

server initdb -D "$directory/data" -U postgres -A trust -E UTF8 --locale=C --no-sync >"$directory/initdb.log" 2>&1 || {
  cat "$directory/initdb.log" >&2
  exit 70
}

# Nothing here has to survive a crash, so nothing waits for the disk.
cat >>"$directory/data/postgresql.conf" <<'SETTINGS'
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
fsync = off
synchronous_commit = off
full_page_writes = off
max_connections = 300
shared_buffers = 32MB
SETTINGS
started=
for port in $(shuf -i 20000-29999 -n 20); do
  if server pg_ctl start -D "$directory/data" -l "$directory/server.log" -s -w -o "-p $port" 2>/dev/null; then
    started=$port
    break
  fi
  # Another program may own the port; anything else is an error.
  grep -q "Address already in use" "$directory/server.log" || break
done
if [ -z "$started" ]; then
  cat "$directory/server.log" >&2
  exit 70
fi

status=0
DATABASE_URL="postgres://postgres@127.0.0.1:$started/postgres" "$@" || status=$?
exit "$status"
