#!/usr/bin/env bash
# Unit, snapshot, property and fake API server tests, and the app's tests against a throwaway PostgreSQL.
# Snapshots are never written here, and one that no test looks at any more fails the run.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

references=$(mktemp)
trap 'rm -f "$references"' EXIT
export CI=true INSTA_UPDATE=no INSTA_SNAPSHOT_REFERENCES_FILE=$references

status=0
workloads/test-database.sh cargo test --release --no-fail-fast || status=$?

# Tests that failed may have looked at fewer snapshots, so only a green run is judged.
if ((status == 0)); then
  unreferenced=$(
    comm -23 \
      <(git ls-files --cached --others --exclude-standard -- '*.snap' | xargs -r realpath | sort) \
      <(sort -u "$references" | xargs -r realpath | sort -u)
  )
  if [[ -n $unreferenced ]]; then
    printf 'error: no test looks at these snapshots any more, remove them:\n%s\n' "$unreferenced" >&2
    status=1
  fi
fi
exit "$status"
