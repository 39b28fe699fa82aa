#!/usr/bin/env bash
# Makes sure that redis-server is there for the tests that start one of their own, and runs a command.
#
#   workloads/test-database.sh workloads/test-cache.sh cargo test -p shortener-app
set -euo pipefail

if [ $# -eq 0 ]; then
  echo "usage: $0 <command> [arguments]" >&2
  exit 64
fi

# In a shell of its own, so that its trap runs however it ends.
install_redis() (
  if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    echo "test-cache: redis-server is missing; install it (Debian: apt-get install redis-server)" >&2
    exit 69
  fi
  echo "test-cache: installing redis-server" >&2
  # The package would otherwise start a server of its own.
  policy=/usr/sbin/policy-rc.d
  if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod +x "$policy"
    trap 'rm -f "$policy"' EXIT
  fi
  {
    apt-get update -q
    DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends redis-server
  } >&2
)

command -v redis-server >/dev/null || install_redis
exec "$@"
