#!/usr/bin/env bash
# Builds the parts of a closed machine's cluster except for the product: the node image, the tools, and the images of the
# services. If another run is in progress, it shows that run's progress, waits for it, and uses its results.
#
#   parts.sh        builds the missing parts
#   parts.sh begin  does so in the background, with its output in a log, and only while other work leaves a core idle, as
#                   downloads, linkers and packages do. Errors are reported by the run that needs the parts.
#
# SHORTENER_PARTS=tests adds what only the tests need: the images of a Gateway.
# shellcheck source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

log=$logs/parts.log

# The stores come first, because the tests of the app and the worker need them.
build() {
  "$repo/e2e/images/build.sh" stores
  "$cluster_dir/node.sh"
  "$cluster_dir/tools.sh" cluster
  "$repo/e2e/images/build.sh" services
  if [[ ${SHORTENER_PARTS:-} == tests ]]; then "$repo/e2e/images/build.sh" gateway; fi
}

# Follows the log of the other run until its lock is free. The follower ends with this run, however that ends, and never has
# the lock: it would keep it after a run that was killed.
wait_for_other_run() {
  local follower
  tail --pid=$$ -n 1 -F "$log" 2>/dev/null 6>&- &
  follower=$!
  flock 6
  kill "$follower"
}

# Leaves the processors to other sessions. Linux shares processor time among sessions first, and considers the priority
# of a process only within its session.
yield_processors() {
  renice --priority 19 --pid $$
  if [[ -w /proc/self/autogroup ]]; then echo 19 >/proc/self/autogroup; fi
}

# The run that started this one in the background has opened the lock.
if [[ ${1:-} == locked ]]; then
  yield_processors
  build
  exit
fi
exec 6>"$cache/parts.lock"
case "${1:-}" in
  begin)
    if flock --nonblock 6; then
      : >"$log"
      setsid "$0" locked </dev/null >>"$log" 2>&1 &
    fi
    ;;
  '')
    flock --nonblock 6 || step "Wait for the parts of the cluster that are being built" wait_for_other_run
    build
    ;;
  *) die "unknown argument: $1" "run it as: parts.sh [begin]" ;;
esac
