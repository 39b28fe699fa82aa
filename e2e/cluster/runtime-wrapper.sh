#!/bin/sh
# runc for hosts that do not hold CAP_SYS_RESOURCE (a container, a small virtual machine): takes that capability out
# of what the caller asks for, because "every capability" cannot be granted there. Used as the engine's default
# runtime and as the node's runc.
set -eu

strip() {
  sed -i -z -E 's/"CAP_SYS_RESOURCE"[[:space:]]*,//g; s/,[[:space:]]*"CAP_SYS_RESOURCE"//g' "$1"
}

previous=
for argument in "$@"; do
  case $previous in
    --bundle | -b) strip "$argument/config.json" ;;
    --process | -p) strip "$argument" ;;
  esac
  previous=$argument
done

# In the node this file stands in for runc itself, with the real one beside it.
if [ -x "$0.real" ]; then exec "$0.real" "$@"; fi
exec runc "$@"
