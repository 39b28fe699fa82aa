#!/bin/sh
# runc for hosts without CAP_SYS_RESOURCE (a container, a small virtual machine): removes that capability
# from the caller's request, because "every capability" cannot be granted there. It is the engine's
# default runtime and the node's runc.
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

# In the node this file replaces runc, and the real one is beside it.
if [ -x "$0.real" ]; then exec "$0.real" "$@"; fi
exec runc "$@"
