#!/usr/bin/env bash
# Checks that the images built here keep the contract of the public images, under the restrictions of the operator's
# pods: a fixed user, a read-only root, no capabilities.
#
#   contract.sh                        all of them, in parallel
#   contract.sh postgres|postgres_17|nginx|valkey|rabbitmq|qdrant|prometheus|collector
set -euo pipefail

# shellcheck source=../cluster/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../cluster/lib.sh"
# shellcheck source=services.sh
. "$closed_dir/services.sh"
for part in "$closed_dir"/contract/*.sh; do
  # shellcheck source=/dev/null
  . "$part"
done

checks=(postgres postgres_17 nginx valkey rabbitmq qdrant prometheus collector)
# shellcheck disable=SC2034 # used by the parts
restrictions=(--read-only --cap-drop ALL --security-opt no-new-privileges --tmpfs /tmp)

expect() {
  local title=$1 wanted=$2 found=$3
  if [[ $found != "$wanted" ]]; then die "not so: $title: expected '$wanted', found '$found'" "see e2e/closed/contract and the image's folder in e2e/closed"; fi
  say "ok: $title"
}

# is_named_by_version <image> command...: compares major and minor of the program's version
# with those of the image's tag.
is_named_by_version() {
  local image=$1
  shift
  expect "it is the version of its name" "$(major_minor <<<"${image##*:}")" "$("$@" 2>&1 | major_minor)"
}

# major_minor: prints major and minor of the first version in the input.
major_minor() { grep --only-matching --extended-regexp '[0-9]+\.[0-9]+' | sed -n 1p; }

# program_of <image> <program> arguments...: runs a program of an image without its entry point.
program_of() {
  local image=$1 program=$2
  shift 2
  docker run --rm --entrypoint "$program" "$image" "$@"
}

# says <text> command...: prints `yes` if the command prints the text, whatever its exit code.
says() {
  local text=$1
  shift
  if [[ $("$@" 2>&1) == *"$text"* ]]; then echo yes; fi
}

# await command...: repeats the command until it succeeds, for a minute at most.
await() {
  local deadline=$((SECONDS + 60))
  until "$@" >/dev/null 2>&1; do
    if ((SECONDS >= deadline)); then
      docker logs --tail 20 "$container" >&2
      die "timed out after 60 s waiting for: $*" "read the container's log above"
    fi
    sleep 0.2
  done
}

in_container() { docker exec "$container" "$@"; }

# stop_container: stops the container as a cluster does and prints its exit code.
stop_container() {
  docker stop --time 30 "$container" >/dev/null
  docker inspect --format '{{.State.ExitCode}}' "$container"
}

check() {
  local image=${1}_image
  container=shortener-contract-$1-$$
  work=$(mktemp -d)
  trap 'docker rm --force --volumes "$container" >/dev/null 2>&1 || true; rm -rf "$work"' EXIT
  # The containers run as other users than this script.
  chmod 0755 "$work"
  mkdir -m 0777 "$work/data" "$work/home"
  say "==> ${!image}"
  "check_$1"
}

# Each check prints its output when it is done, so that their lines do not mix.
check_all() {
  local name failed=0 pids=() logs
  logs=$(mktemp -d)
  for name in "${checks[@]}"; do
    "$0" "$name" >"$logs/$name" 2>&1 &
    pids+=($!)
  done
  for name in "${!checks[@]}"; do
    wait "${pids[$name]}" || failed=1
    cat "$logs/${checks[$name]}" >&2
  done
  rm -rf "$logs"
  return "$failed"
}

case "${1:-all}" in
  all) check_all ;;
  postgres | postgres_17 | nginx | valkey | rabbitmq | qdrant | prometheus | collector) check "$1" ;;
  *) die "there is no check $1" "name one of: ${checks[*]}" ;;
esac
