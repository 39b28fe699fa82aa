# Compares every table of the managed database, which takes no writes, with its copy in the Cluster. It ends with the code
# $DIFFERS and the first tables that differ.

# in_managed <command>: runs a command with the connection settings of the managed database.
in_managed() (
  export PGHOST=$MANAGED_HOST PGPORT=$MANAGED_PORT PGDATABASE=$MANAGED_DATABASE PGUSER=$MANAGED_USERNAME PGPASSWORD=$MANAGED_PASSWORD
  export PGAPPNAME=shortener-move PGCONNECT_TIMEOUT=30
  "$@"
)

# in_cluster <command>: runs a command with those of the Cluster.
in_cluster() (
  connect
  PGAPPNAME=shortener-move
  "$@"
)

ask() { sql --dbname="$connection" "$@"; }

answers() { ask <<<'SELECT 1' >/dev/null; }

# tables: prints the number of rows and the checksum of each table, all of one moment.
tables() {
  ask --set form="$form" <<'SQL'
\o /dev/null
SET statement_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
:form
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
SELECT current_schema() AS schema \gset
:contents \gset
\o
:query;
SQL
}

# differing <tables> <tables>: prints up to five tables that are not the same.
differing() {
  ask --set managed="$1" --set copy="$2" <<'SQL'
SELECT format('table %s: %s in the managed database, %s in the copy', key, coalesce(managed.value::text, 'nothing'), coalesce(copy.value::text, 'nothing'))
FROM jsonb_each(:'managed'::jsonb) AS managed FULL JOIN jsonb_each(:'copy'::jsonb) AS copy USING (key)
WHERE managed.value IS DISTINCT FROM copy.value
ORDER BY key LIMIT 5
SQL
}

trap 'exit 0' TERM
for place in in_managed in_cluster; do
  until "$place" answers; do
    sleep 1 &
    wait "$!"
  done
done
in_managed tables >/tmp/managed &
managed=$!
in_cluster tables >/tmp/copy &
copy=$!
wait "$managed"
wait "$copy"
differences=$(in_cluster differing "$(</tmp/managed)" "$(</tmp/copy)")
if [[ -n $differences ]]; then
  printf '%s\n' "$differences" >&2
  exit "$DIFFERS"
fi
printf 'every table is the same\n'
