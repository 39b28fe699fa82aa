# shellcheck shell=bash
# The checks of contract.sh for PostgreSQL.
# shellcheck disable=SC2154 # container, work and the names of images come from contract.sh

query() { in_container psql --no-psqlrc --tuples-only --no-align --username shortener --dbname links --command "$1"; }

# Uses the container's own address instead of the loopback one, which needs no password, as in the public image.
# shellcheck disable=SC2016 # for the shell in the container
query_with_password() {
  in_container env PGPASSWORD="$1" bash -c \
    'psql --no-psqlrc -At -h "$(hostname -i)" -U shortener -d links -c "select 1" 2>&1 || true'
}

# start_postgres <image> [arguments of the server]
start_postgres() {
  local image=$1
  shift
  docker run --detach --name "$container" "${restrictions[@]}" --user 999:999 \
    --tmpfs /var/run/postgresql:mode=1777 --volume "$work/data:/var/lib/postgresql/data" \
    --volume "$work/init:/docker-entrypoint-initdb.d:ro" --volume "$work/password:/password:ro" \
    --env PGDATA=/var/lib/postgresql/data/pgdata --env POSTGRES_USER=shortener --env POSTGRES_DB=links \
    --env POSTGRES_PASSWORD_FILE=/password "$image" "$@" >/dev/null
  await in_container pg_isready --host 127.0.0.1
}

check_postgres() { check_postgres_image "$postgres_image"; }

check_postgres_17() { check_postgres_image "$postgres_17_image"; }

check_postgres_image() {
  local image=$1
  is_named_by_version "$image" program_of "$image" postgres --version
  mkdir "$work/init"
  printf 'create table from_sql ();\n' >"$work/init/1.sql"
  # shellcheck disable=SC2016 # for the shell in the container
  printf 'psql -q -U "$POSTGRES_USER" "$POSTGRES_DB" -c "create table from_shell ()"\n' >"$work/init/2.sh"
  printf 'create table from_gzip ();\n' | gzip >"$work/init/3.sql.gz"
  printf 'secret\n' >"$work/password"

  expect "without a password it does not start" yes "$(says 'set POSTGRES_PASSWORD' docker run --rm "$image")"

  start_postgres "$image"
  expect "it runs as 999" "999 999" "$(in_container id -u) $(in_container id -g)"
  expect "the scripts of the init directory ran" from_gzip,from_shell,from_sql \
    "$(query "select string_agg(relname, ',' order by relname) from pg_class where relname like 'from_%'")"
  expect "the local socket is trusted" 1 "$(query 'select 1')"
  expect "the right password is let in over TCP" 1 "$(query_with_password secret)"
  expect "a wrong password is refused" yes \
    "$(says 'password authentication failed' query_with_password wrong)"
  query 'insert into from_sql default values' >/dev/null
  expect "the stop signal stops it in order" 0 "$(stop_container)"
  docker rm "$container" >/dev/null

  start_postgres "$image" -c max_connections=7
  expect "a restart keeps the data" 1 "$(query 'select count(*) from from_sql')"
  expect "arguments reach the server" 7 "$(query 'show max_connections')"
  docker rm --force "$container" >/dev/null
}
