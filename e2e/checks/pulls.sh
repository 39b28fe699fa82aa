#!/usr/bin/env bash
# Pulls public images through a mirror on loopback that is slow, busy, broken or refuses, with the engine of this
# machine: a temporary failure is retried until it succeeds, and a permanent one ends with a remedy.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source e2e/checks/registry.sh

name=shortener-pulls
work=$(mktemp -d)
cleanup() {
  if [[ -n ${faults_pid:-} ]]; then kill "$faults_pid" 2>/dev/null || true; fi
  stop_registry "${registry_pid:-}" || true # in a trap its bare return has the status from before
  docker image rm --force "$name:1" "$name/two:1" "pushed/$name" >/dev/null 2>&1 || true
  if [[ -n ${SHORTENER_MIRROR:-} ]]; then forget >/dev/null 2>&1 || true; fi
  rm -rf "$work"
}
trap cleanup EXIT

# Pushes the images under two names as public ones have: one without a folder, one with.
push_images() {
  local digest
  printf '%s\n' "$work" >"$work/file" # new at every run, or the engine would know the digest already
  printf 'FROM scratch\nCOPY file /\n' >"$work/Dockerfile"
  docker_build --quiet --tag "pushed/$name" "$work" >/dev/null
  for image in "library/$name:1" "$name/two:1"; do
    docker tag "pushed/$name" "$registry_address/$image"
    docker push --quiet "$registry_address/$image" >/dev/null
    docker image rm "$registry_address/$image" >/dev/null
  done
  digest=$(crane digest "$registry_address/library/$name:1")
  printf '%s:1 %s\n%s/two:1 -\n' "$name" "$digest" "$name" >"$work/images"
  # Otherwise the engine would have the layers already and request nothing.
  docker image rm "pushed/$name" >/dev/null
}

# Starts the faulty proxy in front of the registry, see faults/main.go, and exports its address as SHORTENER_MIRROR.
start_faults() {
  local module=$repo/e2e/checks/faults deadline=$((SECONDS + 20))
  gobuild "$module" shortener.dev/e2e/faults
  plan well
  "$(built "$module" shortener.dev/e2e/faults)/faults" "$registry_address" "$work" >"$work/address" 2>"$work/faults.log" </dev/null &
  faults_pid=$!
  until [[ -s $work/address ]]; do
    ((SECONDS < deadline)) || die "the faulty proxy did not start within 20 s: $(cat "$work/faults.log")" "see e2e/checks/faults/main.go"
    sleep 0.1
  done
  SHORTENER_MIRROR=$(<"$work/address")
  export SHORTENER_MIRROR
}

# plan <how> [count]: sets the proxy's behavior from now on.
plan() { printf '%s\n' "$*" >"$work/plan"; }

# forget: removes the images and all their layers from the engine.
forget() {
  docker image ls --quiet --no-trunc --filter "reference=$name" --filter "reference=$name/two" \
    --filter "reference=$SHORTENER_MIRROR/*/*" | sort -u | while IFS= read -r image; do docker image rm --force "$image"; done
}

# pulled image...: pulls them as make up does; the output is in $work/out.
pulled() {
  forget >/dev/null
  : >"$work/requests"
  (export SHORTENER_PULL_PAUSE=0 && public_list=$work/images && pull "$@") >"$work/out" 2>&1
}

says() { grep -qF -- "$1" "$work/out" || die "the output of pull lacks '$1': $(cat "$work/out")" "see e2e/cluster/public.sh"; }

succeeds() {
  local title=$1
  shift
  pulled "$@" || die "not so: $title: the pull failed: $(cat "$work/out")" "see try_pull in e2e/cluster/public.sh"
  for image in "$@"; do docker image inspect "$image" >/dev/null || die "not so: $title: the engine lacks $image after the pull" "see pull_as in e2e/cluster/public.sh"; done
  say "ok: $title"
}

# fails <title> <attempts> <image>: pulling must give up after this number of attempts and print a remedy.
fails() {
  local title=$1 attempts=$2
  if pulled "$3"; then die "not so: $title: the pull succeeded" "see $work/requests"; fi
  says "gave up after attempt $attempts"
  says "what to do: check that this machine reaches the registry"
  says "SHORTENER_MIRROR=host:port"
  says "SHORTENER_CLOSED=yes"
  say "ok: $title"
}

start_registry "$work/registry"
push_images
start_faults

succeeds "both names are found on the mirror" "$name:1" "$name/two:1"
grep -q "/library/$name/manifests/sha256:" "$work/requests" || die "an image with a known digest was not pulled by it" "see source_of in e2e/cluster/public.sh"
grep -q "/$name/two/manifests/1" "$work/requests" || die "an image without a known digest was not pulled by its tag" "see source_of in e2e/cluster/public.sh"

# Pulls by the tag from here on: the engine caches the answer for a digest for a while and sends no request.
plan slow 700
begin=$SECONDS
succeeds "a pull waits for a slow mirror" "$name/two:1"
((SECONDS - begin >= 2)) || die "the pull from the slow mirror took less than 2 s" "see e2e/checks/faults/main.go"

plan busy 3
succeeds "a pull is retried while the mirror is busy" "$name/two:1"
plan broken 2
succeeds "a pull is retried after a broken connection" "$name/two:1"
plan busy 1000
fails "a pull ends after 6 attempts while the mirror stays busy" 6 "$name/two:1"
says toomanyrequests
plan refuse
fails "a pull that is refused is not retried" 1 "$name/two:1"
says denied

plan well
printf '%s:1 sha256:%064d\n' "$name" 1 >"$work/images"
fails "an image with another digest is refused" 1 "$name:1"
