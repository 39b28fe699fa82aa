#!/usr/bin/env bash
# Checks that the PostgreSQL and nginx images built here keep the contract of the public images, under the restrictions
# that the operator puts on their pods: a fixed user, a read-only root, no capabilities.
set -euo pipefail

images_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=../cluster/lib.sh
. "$images_dir/../cluster/lib.sh"
# shellcheck source=services.sh
. "$images_dir/services.sh"

container=shortener-contract-$$
work=$(mktemp -d)
trap 'docker rm --force --volumes "$container" >/dev/null 2>&1 || true; rm -rf "$work"' EXIT
# The containers run as other users than this script.
chmod 0755 "$work"
mkdir -m 0777 "$work/data"

restrictions=(--read-only --cap-drop ALL --security-opt no-new-privileges --tmpfs /tmp)

expect() {
  local title=$1 wanted=$2 found=$3
  if [[ $found != "$wanted" ]]; then die "$title: expected '$wanted', found '$found'"; fi
  say "ok: $title"
}

# await command...: until it succeeds, a minute at most.
await() {
  local deadline=$((SECONDS + 60))
  until "$@" >/dev/null 2>&1; do
    if ((SECONDS >= deadline)); then
      docker logs --tail 20 "$container" >&2
      die "waited a minute for: $*"
    fi
    sleep 0.2
  done
}

in_container() { docker exec "$container" "$@"; }
query() { in_container psql --no-psqlrc --tuples-only --no-align --username shortener --dbname links --command "$1"; }

# The container's own address is not the loopback one, which trusts everybody as in the public image.
# shellcheck disable=SC2016 # for the shell in the container
query_with_password() {
  in_container env PGPASSWORD="$1" bash -c \
    'psql --no-psqlrc -At -h "$(hostname -i)" -U shortener -d links -c "select 1" 2>&1 || true'
}

start_postgres() {
  docker run --detach --name "$container" "${restrictions[@]}" --user 999:999 \
    --tmpfs /var/run/postgresql:mode=1777 --volume "$work/data:/var/lib/postgresql/data" \
    --volume "$work/init:/docker-entrypoint-initdb.d:ro" --volume "$work/password:/password:ro" \
    --env PGDATA=/var/lib/postgresql/data/pgdata --env POSTGRES_USER=shortener --env POSTGRES_DB=links \
    --env POSTGRES_PASSWORD_FILE=/password "$postgres_image" "$@" >/dev/null
  await in_container pg_isready --host 127.0.0.1
}

stop_container() {
  docker stop --time 30 "$container" >/dev/null
  docker inspect --format '{{.State.ExitCode}}' "$container"
}

check_postgres() {
  local output
  mkdir "$work/init"
  printf 'create table from_sql ();\n' >"$work/init/1.sql"
  # shellcheck disable=SC2016 # for the shell in the container
  printf 'psql -q -U "$POSTGRES_USER" "$POSTGRES_DB" -c "create table from_shell ()"\n' >"$work/init/2.sh"
  printf 'create table from_gzip ();\n' | gzip >"$work/init/3.sql.gz"
  printf 'secret\n' >"$work/password"

  output=$(docker run --rm "$postgres_image" 2>&1 || true)
  expect "without a password it does not start" yes "$(grep -q 'set POSTGRES_PASSWORD' <<<"$output" && echo yes)"

  start_postgres
  expect "it runs as 999" "999 999" "$(in_container id -u) $(in_container id -g)"
  expect "the scripts of the init directory ran" from_gzip,from_shell,from_sql \
    "$(query "select string_agg(relname, ',' order by relname) from pg_class where relname like 'from_%'")"
  expect "the local socket is trusted" 1 "$(query 'select 1')"
  expect "the right password is let in over TCP" 1 "$(query_with_password secret)"
  expect "a wrong password is refused" yes \
    "$(query_with_password wrong | grep -q 'password authentication failed' && echo yes)"
  query 'insert into from_sql default values' >/dev/null
  expect "the stop signal stops it in order" 0 "$(stop_container)"
  docker rm "$container" >/dev/null

  start_postgres -c max_connections=7
  expect "a restart keeps the data" 1 "$(query 'select count(*) from from_sql')"
  expect "arguments reach the server" 7 "$(query 'show max_connections')"
  docker rm --force "$container" >/dev/null
}

check_nginx() {
  cat >"$work/nginx.conf" <<'CONF'
pid /tmp/nginx.pid;
events {}
http {
  include /etc/nginx/mime.types;
  client_body_temp_path /tmp/body; proxy_temp_path /tmp/proxy; fastcgi_temp_path /tmp/fastcgi;
  uwsgi_temp_path /tmp/uwsgi; scgi_temp_path /tmp/scgi;
  server { listen 8080; return 200 "answered"; }
}
CONF
  docker run --detach --name "$container" "${restrictions[@]}" --user 101:101 \
    --volume "$work/nginx.conf:/etc/shortener/nginx.conf:ro" "$nginx_image" \
    nginx -c /etc/shortener/nginx.conf -g 'daemon off;' >/dev/null
  await in_container curl --silent --fail http://127.0.0.1:8080/
  expect "it answers as 101 with a read-only root" answered "$(in_container curl --silent http://127.0.0.1:8080/)"
  expect "the stop signal stops it in order" 0 "$(stop_container)"
  docker rm "$container" >/dev/null
}

say "==> $postgres_image"
check_postgres
say "==> $nginx_image"
check_nginx
