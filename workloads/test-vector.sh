#!/usr/bin/env bash
# Starts a throwaway vector store, runs a command with TEST_VECTOR_URL (gRPC), TEST_VECTOR_HTTP_URL and
# TEST_VECTOR_API_KEY pointing to it, and removes the server. It is the stand-in for Qdrant that the local cluster runs.
#
#   workloads/test-vector.sh cargo test -p shortener-app
set -euo pipefail

if [ $# -eq 0 ]; then
  echo "usage: $0 <command> [arguments]" >&2
  exit 64
fi

program=$("$(dirname "$0")/../e2e/images/qdrant.sh")
# In memory where there is a place for that: the store brings every change to the disk before it answers, which takes
# seconds while somebody else writes, and nothing here has to survive.
place=/dev/shm
if ! [ -d "$place" ] || ! [ -w "$place" ]; then place=${TMPDIR:-/tmp}; fi
directory=$(mktemp -d "$place/test-vector.XXXXXX")
server=

cleanup() {
  # Nothing here has to survive, so nothing is asked to end in good order.
  if [ -n "$server" ]; then
    kill -KILL "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
  fi
  rm -rf "$directory"
}
trap cleanup EXIT

key=test-vector-key
# It takes free ports and says which.
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
