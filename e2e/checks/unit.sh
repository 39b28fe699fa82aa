#!/usr/bin/env bash
# Every Rust test that needs no cluster: builders against golden manifests, conditions, the fake API server, parsers,
# and app and worker against a throwaway PostgreSQL, RabbitMQ and vector store and throwaway Redis servers.
# Golden manifests are never written here, and one that no test looks at any more fails the run.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

references=$(mktemp)
trap 'rm -f "$references"' EXIT
# Most of them wait for something, so there are more of them at once than cores.
export RUST_TEST_THREADS=4
export CI=true INSTA_UPDATE=no INSTA_SNAPSHOT_REFERENCES_FILE=$references

# The kinds of tests are chosen instead of the packages, because another choice of packages has other features in the
# crates that all share and would compile them anew. What needs a cluster is in the `--test` targets of e2e.
targets=(--lib --bins)
for file in {operator,workloads/*}/tests/*.rs; do
  [[ ! -e $file ]] || targets+=(--test "$(basename "$file" .rs)")
done
for file in {operator,workloads/*}/tests/*/main.rs; do
  [[ ! -e $file ]] || targets+=(--test "$(basename "$(dirname "$file")")")
done

status=0
workloads/test-database.sh workloads/test-cache.sh workloads/test-broker.sh workloads/test-vector.sh \
  cargo test --profile quick --workspace --no-fail-fast "${targets[@]}" || status=$?
cargo test --profile quick --workspace --no-fail-fast --doc || status=$?

# Tests that failed may have looked at fewer manifests, so only a green run is judged.
if ((status == 0)); then
  unreferenced=$(
    comm -23 \
      <(git ls-files --cached --others --exclude-standard -- '*.snap' | xargs -r realpath | sort) \
      <(sort -u "$references" | xargs -r realpath | sort -u)
  )
  if [[ -n $unreferenced ]]; then
    say "error: no test looks at these golden manifests any more, remove them:"
    say "$unreferenced"
    status=1
  fi
fi
exit "$status"
