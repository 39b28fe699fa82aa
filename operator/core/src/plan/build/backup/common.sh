# Shared by the scripts of backups, which bash runs with -euo pipefail in the image of PostgreSQL. A backup is a folder
# named after the time at which it began. It has links.dump, manifest.json and, once it was restored, a file verified.
# The operator reads the results from the termination message: lines `name=value`, or the end of the log after a failure.

folder=${BACKUP_FOLDER:-/backup}
result=${BACKUP_RESULT:-/dev/termination-log}
# Folder that the containers of a pod share.
work=${BACKUP_WORK:-/tmp}
# Only the group reads the backups: the pods that restore them may have another user than those that make them.
umask 007

die() {
  printf 'error: %s\n' "$1" >&2
  exit 1
}

# Prints the names of the finished backups, the newest first.
finished() {
  local manifest
  for manifest in "$folder"/2*Z/manifest.json; do
    if [[ -e $manifest ]]; then basename "$(dirname "$manifest")"; fi
  done | sort -r
}

# The tables of a schema that a dump has; those of an extension come with the extension. It needs the variable `schema`.
dumped=$(
  cat <<'SQL'
pg_catalog.pg_class JOIN pg_catalog.pg_namespace ON pg_namespace.oid = relnamespace
WHERE nspname = :'schema' AND relkind = 'r' AND NOT EXISTS (
  SELECT FROM pg_catalog.pg_depend
  WHERE classid = 'pg_catalog.pg_class'::regclass AND objid = pg_class.oid AND deptype = 'e'
)
SQL
)
# The query that makes the query for the content of each table of a schema: the number of its rows, and a checksum that
# does not depend on their order. It needs the variables `schema` and `dumped`.
contents=$(
  cat <<'SQL'
SELECT format(
  'SELECT coalesce(jsonb_object_agg(name, jsonb_build_object(''rows'', rows, ''checksum'', checksum)), ''{}'') AS tables FROM (%s) AS found',
  coalesce(
    string_agg(
      format(
        'SELECT %L AS name, count(*) AS rows, coalesce(sum(hashtextextended((content.*)::text, 0)), 0)::text AS checksum FROM ONLY %I.%I AS content',
        relname, nspname, relname
      ),
      ' UNION ALL '
    ),
    'SELECT NULL AS name, 0 AS rows, NULL AS checksum WHERE false'
  )
) AS query
FROM :dumped
SQL
)
# The form of values in these queries.
form="SET datestyle = 'ISO, MDY'; SET intervalstyle = 'postgres'; SET timezone = 'UTC'; SET extra_float_digits = 1; SET bytea_output = 'hex';"

# Runs the commands of the standard input and stops at the first error. It prints bare values.
sql() {
  psql --no-psqlrc --quiet --tuples-only --no-align --set ON_ERROR_STOP=1 --set dumped="$dumped" --set contents="$contents" "$@"
}
