#!/usr/bin/env bash
# Functions for the test-*.sh scripts, which source this file. They run the default images of a stack, so the tests
# see the same versions as users.
set -euo pipefail

# shellcheck source=../e2e/cluster/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../e2e/cluster/lib.sh"
# shellcheck source=../e2e/images/names.sh
. "$repo/e2e/images/names.sh"

if (($# == 0)); then
  echo "usage: $0 <command> [arguments]" >&2
  exit 64
fi

# store_image <variable of the operator>: makes the image of a store available to the container engine, and prints
# it.
store_image() {
  local image
  image=$(default_image "$1")
  docker_ready
  if closed; then
    image=$(stand_in "$image")
    "$repo/e2e/images/build.sh" stores
  elif ! docker image inspect "$image" >/dev/null 2>&1; then
    docker pull --quiet "$image" >&2
  fi
  printf '%s\n' "$image"
}

answers() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# free_ports <count>: prints ports of this machine without a listener.
free_ports() {
  local port found=0
  for port in $(shuf -i 20000-29999 -n 200); do
    if answers "$port"; then continue; fi
    echo "$port"
    found=$((found + 1))
    if ((found == $1)); then return; fi
  done
}

# start_container <image> [arguments of docker run]... -- <command>...: starts a server on the network of this
# machine, which adds no overhead, and removes it when the script ends.
start_container() {
  local image=$1 options=()
  shift
  while [[ $1 != -- ]]; do
    options+=("$1")
    shift
  done
  shift
  container=shortener-test-$(basename "$0" .sh)-$$
  trap 'docker rm --force --volumes "$container" >/dev/null 2>&1' EXIT
  docker run --detach --name "$container" --network host "${options[@]}" "$image" "$@" >/dev/null
}

# await_container <what> command...: waits until the command succeeds, for at most two minutes.
await_container() {
  local title=$1 deadline=$((SECONDS + 120))
  shift
  until "$@" >/dev/null 2>&1; do
    if ((SECONDS >= deadline)) || [[ $(docker inspect --format '{{.State.Running}}' "$container") != true ]]; then
      docker logs --tail 40 "$container" >&2
      die "$title did not start" "read its log above"
    fi
    sleep 0.2
  done
}

# take_programs <image> <program>...: copies programs of an image, with the libraries they need, into the cache.
# They run as processes of this machine, which a test can stop and freeze. Prints the folder with a command for each
# program.
take_programs() {
  local image=$1 home program
  shift
  home=$cache/programs/$(docker image inspect --format '{{.Id}}' "$image" | cut -d : -f 2 | cut -c 1-12)-$(key_of_words "$@")
  if [[ ! -d $home ]]; then
    rm -rf "$home.part"
    mkdir -p "$home.part/root"
    # tar --dereference: the loader prints the paths that it opens, and links among them become files.
    # shellcheck disable=SC2016 # for the shell in the container
    docker run --rm --entrypoint sh "$image" -c '
      set -e
      files=
      for program in "$@"; do
        path=$(command -v "$program")
        files="$files $path $(ldd "$path" | grep -o "/[^ ]*")"
      done
      tar --create --dereference $files 2>/dev/null' sh "$@" | tar --extract --directory "$home.part/root"
    for program in "$@"; do write_command "$home" "$program"; done
    rm -rf "${home%-*}"-????????????
    mv "$home.part" "$home"
  fi
  printf '%s\n' "$home"
}

key_of_words() { printf '%s\n' "$@" | sha256sum | cut -c 1-12; }

# write_command <folder> <program>: writes a command that runs a program with the libraries of its image.
write_command() {
  local home=$1 program=$2 root=$1/root path loader libraries
  path=$(cd "$home.part/root" && find . -name "$program" -type f | sed -n 1p)
  loader=$(cd "$home.part/root" && find . -name 'ld-linux*' -type f | sed -n 1p)
  libraries=$(cd "$home.part/root" && find . -name '*.so*' -type f -exec dirname {} + | sort -u | sed "s|^\.|$root|" | paste -sd :)
  cat >"$home.part/$program" <<COMMAND
#!/bin/sh
exec "$root/$loader" --library-path "$libraries" --argv0 "$program" "$root/$path" "\$@"
COMMAND
  chmod +x "$home.part/$program"
}
