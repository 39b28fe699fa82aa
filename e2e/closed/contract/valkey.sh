# shellcheck shell=bash
# The checks of contract.sh for Valkey.
# shellcheck disable=SC2154 # container, work and the names of images come from contract.sh

# ask <password, or empty> <command>...: prints the answer of the server, errors included.
ask() {
  local password=$1
  shift
  in_container env ${password:+REDISCLI_AUTH="$password"} valkey-cli --no-auth-warning "$@" 2>&1
}

answers() { [[ $(ask "$1" ping) == PONG ]]; }

check_valkey() {
  local other
  is_named_by_version "$valkey_image" program_of "$valkey_image" valkey-server --version
  printf 'maxmemory 32mb\nmaxmemory-policy allkeys-lfu\nsave ""\n' >"$work/valkey.conf"
  # Starts it as the operator does: settings from a file, users from the standard input.
  printf 'exec valkey-server /etc/shortener/valkey.conf - <<USERS\nuser default on >secret ~* &* +@all\nUSERS\n' >"$work/start.sh"
  docker run --detach --name "$container" "${restrictions[@]}" --user 999:999 --volume "$work/data:/data" \
    --volume "$work/valkey.conf:/etc/shortener/valkey.conf:ro" --volume "$work/start.sh:/start.sh:ro" \
    "$valkey_image" sh /start.sh >/dev/null
  await answers secret
  expect "it runs as 999 with a read-only root" "999 999" "$(in_container id -u) $(in_container id -g)"
  expect "a client without the password is refused" "NOAUTH Authentication required." "$(ask '' get x)"
  expect "a wrong password is refused" yes "$(says WRONGPASS ask wrong get x)"
  expect "an entry expires at a given time" "OK 4102444800" \
    "$(ask secret set link:x y exat 4102444800) $(ask secret expiretime link:x)"
  expect "settings come from the file" allkeys-lfu "$(ask secret config get maxmemory-policy | tail -n 1)"
  expect "the stop signal stops it in order" 0 "$(stop_container)"
  docker rm "$container" >/dev/null

  docker run --detach --name "$container" "${restrictions[@]}" --user 999:999 --volume "$work/data:/data" \
    "$valkey_image" >/dev/null
  await answers ''
  other=$(in_container hostname -i)
  expect "without a configured password other machines are let in" PONG "$(ask '' -h "$other" ping)"
  docker rm --force "$container" >/dev/null

  docker run --detach --name "$container" "${restrictions[@]}" --user 999:999 --volume "$work/data:/data" "$valkey_image" sh -c \
    'echo "sentinel monitor mymaster 192.0.2.1 6379 1" >s.conf && exec valkey-sentinel s.conf' >/dev/null
  await in_container valkey-cli -p 26379 ping
  expect "valkey-sentinel is a sentinel" sentinel \
    "$(in_container valkey-cli -p 26379 info server | sed -n 's/^server_mode:\([a-z]*\).*/\1/p')"
  docker rm --force "$container" >/dev/null
}
