#!/usr/bin/env bash
# Starts a temporary vector store, runs a command with its addresses in TEST_VECTOR_URL (gRPC) and
# TEST_VECTOR_HTTP_URL and its key in TEST_VECTOR_API_KEY, and removes the server. It is the stand-in for Qdrant of
# the local cluster.
#
#   workloads/test-vector.sh cargo test -p shortener-app
set -euo pipefail

if [ $# -eq 0 ]; then
  echo "usage: $0 <command> [arguments]" >&2
  exit 64
fi

program=$("$(dirname "$0")/../e2e/images/qdrant.sh")
# In memory if possible: the store writes every change to disk before it responds, which takes seconds on a busy
# disk, and the data need not survive.
place=/dev/shm
if ! [ -d "$place" ] || ! [ -w "$place" ]; then place=${TMPDIR:-/tmp}; fi
directory=$(mktemp -d "$place/test-vector.XXXXXX")
server=

cleanup() {
  # The data need not survive, so the server is killed.
  if [ -n "$server" ]; then
    kill -KILL "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
  fi
  rm -rf "$directory"
}
trap cleanup EXIT

key=test-vector-key
# The server listens on free ports and logs them.
(
  cd "$directory"
  exec env -i QDRANT__SERVICE__API_KEY="$key" QDRANT__SERVICE__HOST=127.0.0.1 \
    QDRANT__SERVICE__HTTP_PORT=0 QDRANT__SERVICE__GRPC_PORT=0 "$program"
) >"$directory/server.log" 2>&1 </dev/null &
server=$!

port_of() { sed -n "s/.*Qdrant $1 listening on //p" "$directory/server.log"; }

waited=0
until grpc=$(port_of gRPC) && [ -n "$grpc" ]; do
  if [ "$waited" -ge 300 ] || ! kill -0 "$server" 2>/dev/null; then
    echo "test-vector: the vector store did not start" >&2
    cat "$directory/server.log" >&2
    exit 70
  fi
  sleep 0.1
  waited=$((waited + 1))
done

status=0
TEST_VECTOR_URL="http://127.0.0.1:$grpc" TEST_VECTOR_HTTP_URL="http://127.0.0.1:$(port_of HTTP)" \
  TEST_VECTOR_API_KEY="$key" "$@" || status=$?
exit "$status"
