#!/usr/bin/env bash
# Runs every Rust test that needs no cluster: builders against golden manifests, conditions, the fake API server,
# parsers, and the app and the worker against servers that the tests start: PostgreSQL, RabbitMQ, the vector store and
# Redis.
# It never writes golden manifests, and fails if no test uses one of them any more.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

references=$(mktemp)
trap 'rm -f "$references"' EXIT
# Most tests wait for something, so more of them run at once than there are cores.
export RUST_TEST_THREADS=4
export CI=true INSTA_UPDATE=no INSTA_SNAPSHOT_REFERENCES_FILE=$references

# It selects kinds of tests instead of packages: another selection of packages has other features in the common
# crates and would compile them again. The `--test` targets of e2e need a cluster.
targets=(--lib --bins)
for file in {operator,workloads/*}/tests/*.rs; do
  [[ ! -e $file ]] || targets+=(--test "$(basename "$file" .rs)")
done
for file in {operator,workloads/*}/tests/*/main.rs; do
  [[ ! -e $file ]] || targets+=(--test "$(basename "$(dirname "$file")")")
done

status=0
cargo test --profile quick --workspace --no-fail-fast "${targets[@]}" || status=$?
cargo test --profile quick --workspace --no-fail-fast --doc || status=$?

# Failed tests may have used fewer manifests, so only a run without failures is judged.
if ((status == 0)); then
  unreferenced=$(
    comm -23 \
      <(git ls-files --cached --others --exclude-standard -- '*.snap' | xargs -r realpath | sort) \
      <(sort -u "$references" | xargs -r realpath | sort -u)
  )
  if [[ -n $unreferenced ]]; then
    say "error: no test reads these golden manifests; remove them:"
    say "$unreferenced"
    status=1
  fi
fi
exit "$status"
