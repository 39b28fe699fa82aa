#!/usr/bin/env bash
# Builds the parts of a closed machine's cluster except for the product: the node image, the tools, and the images of the
# services. If another run is in progress, it shows that run's progress, waits for it, and uses its results.
#
#   parts.sh          builds the missing parts except for the network, which a node does not need to start
#   parts.sh network  builds the network if it is missing
#   parts.sh begin    builds everything in the background, with its output in a log, and only while other work leaves a
#                     core idle, as downloads, linkers and packages do. Errors are reported by the run that needs the
#                     parts.
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

# take_turn <lock>: follows the log of another run until its lock is free.
take_turn() {
  if ! flock --nonblock "$1"; then step "Wait for the parts of the cluster that are being built" wait_for_other_run "$1"; fi
}

wait_for_other_run() {
  local follower
  tail -n 1 -F "$log" 2>/dev/null &
  follower=$!
  flock "$1"
  kill "$follower"
}

# Leaves the processors to other sessions. Linux shares processor time among sessions first, and considers the priority
# of a process only within its session.
yield_processors() {
  renice --priority 19 --pid $$
  if [[ -w /proc/self/autogroup ]]; then echo 19 >/proc/self/autogroup; fi
}

# The run that started this one in the background has opened the locks.
if [[ ${1:-} == locked ]]; then
  yield_processors
  build
  flock --unlock 6
  "$repo/e2e/images/build.sh" network
  exit
fi
exec 6>"$cache/parts.lock" 7>"$cache/network.lock"
case "${1:-}" in
  begin)
    if flock --nonblock 6 && flock --nonblock 7; then
      : >"$log"
      setsid "$0" locked </dev/null >>"$log" 2>&1 &
    fi
    ;;
  network)
    take_turn 7
    "$repo/e2e/images/build.sh" network
    ;;
  '')
    take_turn 6
    build
    ;;
  *) die "unknown argument: $1" "run it as: parts.sh [network|begin]" ;;
esac
