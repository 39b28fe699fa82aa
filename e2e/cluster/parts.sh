#!/usr/bin/env bash
# Builds what the cluster of a closed machine consists of besides the product: the node image, the tools, and the images of
# the services. A run that finds another one under way shows its progress, waits for it, and uses its results.
#
#   parts.sh        builds what is missing
#   parts.sh begin  does so in the background, with its output in a log and only in the time that other work leaves:
#                   downloads, linkers and packages leave a core idle by turns. The run that needs the parts reports an error.
# shellcheck source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

log=$logs/parts.log

# The stores come first, because the tests of the app and the worker need them.
build() {
  "$repo/e2e/images/build.sh" stores
  "$cluster_dir/node.sh"
  "$cluster_dir/tools.sh" cluster
  "$repo/e2e/images/build.sh" services
}

# Follows the log of the other run until its lock is free.
wait_for_other_run() {
  local follower
  tail -n 1 -F "$log" 2>/dev/null &
  follower=$!
  flock 6
  kill "$follower"
}

# Takes the processors only while no other session wants them. Linux shares them out by session first, and only within
# a session by the priority of a process.
yield_processors() {
  renice --priority 19 --pid $$
  if [[ -w /proc/self/autogroup ]]; then echo 19 >/proc/self/autogroup; fi
}

# It has the lock from the run that began it.
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
