#!/usr/bin/env bash
# Builds what the cluster of a closed machine consists of besides the product: the node image, the tools, and the images of
# the services. A run that finds another one under way shows its progress, waits for it, and uses its results.
#
#   parts.sh          builds what is missing, except for the network, without which a node starts
#   parts.sh network  builds the network if it is missing
#   parts.sh begin    builds everything in the background, with its output in a log and only in the time that other work
#                     leaves: downloads, linkers and packages leave a core idle by turns. The run that needs the parts
#                     reports an error.
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

# Takes the processors only while no other session wants them. Linux shares them out by session first, and only within
# a session by the priority of a process.
yield_processors() {
  renice --priority 19 --pid $$
  if [[ -w /proc/self/autogroup ]]; then echo 19 >/proc/self/autogroup; fi
}

# The run that began it opened the locks.
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
