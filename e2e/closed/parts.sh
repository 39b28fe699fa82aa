#!/usr/bin/env bash
# Builds the parts of a closed machine's cluster except for the product: the node image, the tools, and the images of the
# services. If another run is in progress, it shows that run's progress, waits for it, and uses its results.
#
#   parts.sh        builds the missing parts
#   parts.sh early  only those of a cluster with a stack of the profiles caching and queue
#   parts.sh begin  builds all in the background, the early ones first, with its output in a log, and only while other work
#                   leaves a core idle, as downloads, linkers and packages do. Errors are reported by the run that needs the
#                   parts.
#
# SHORTENER_PARTS=tests adds what only the tests need: the images of a Gateway.
# shellcheck source=../cluster/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../cluster/lib.sh"

log=$logs/parts.log

# The stores come first, because the tests of the app and the worker need them.
early() {
  "$repo/e2e/images/build.sh" stores
  "$closed_dir/node.sh"
  "$cluster_dir/tools.sh" cluster
  "$repo/e2e/images/build.sh" entry
}

late() {
  "$repo/e2e/images/build.sh" services
  if [[ ${SHORTENER_PARTS:-} == tests ]]; then "$repo/e2e/images/build.sh" gateway; fi
}

# own <early|late>: builds these parts, or follows the log of the run that builds them until its lock is free. The follower
# ends with this run, however that ends, and never has the lock: it would keep it after a run that was killed.
own() {
  local follower
  exec 6>"$cache/parts-$1.lock"
  if ! flock --nonblock 6; then
    say "==> Wait for the parts of the cluster that are being built"
    tail --pid=$$ -n 1 -F "$log" >&2 2>/dev/null 6>&- &
    follower=$!
    flock 6
    kill "$follower"
  fi
  "$1"
  exec 6>&-
}

# Leaves the processors to other sessions. Linux shares processor time among sessions first, and considers the priority
# of a process only within its session.
yield_processors() {
  renice --priority 19 --pid $$
  if [[ -w /proc/self/autogroup ]]; then echo 19 >/proc/self/autogroup; fi
}

case "${1:-}" in
  begin)
    exec 6>"$cache/parts-early.lock" 5>"$cache/parts-late.lock"
    if flock --nonblock 6 && flock --nonblock 5; then
      : >"$log"
      setsid "$0" locked </dev/null >>"$log" 2>&1 &
    fi
    ;;
  # The run that started this one has opened the locks 6 and 5.
  locked)
    yield_processors
    early
    exec 6>&-
    late
    ;;
  early) own early ;;
  '')
    own early
    own late
    ;;
  *) die "unknown argument: $1" "run it as: parts.sh [early|begin]" ;;
esac
