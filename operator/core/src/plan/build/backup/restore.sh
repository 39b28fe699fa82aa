# restore <folder>: restores a backup, and compares what its clients find. The database has nothing but the schema public, where
# they look for the tables whatever schema the dump is of.
restore() {
  local manifest schema differences tables
  manifest=$(<"$1/manifest.json")
  schema=$(sql --set manifest="$manifest" <<<"SELECT :'manifest'::jsonb ->> 'schema'")
  sha256sum -c <<<"$(sql --set manifest="$manifest" <<<"SELECT :'manifest'::jsonb #>> '{dump,sha256}'")  $1/links.dump" >/dev/null 2>&1 \
    || die "links.dump is not as it was written: its SHA-256 differs from that in manifest.json"
  if [[ $schema != public ]]; then sql --set schema="$schema" <<<'CREATE SCHEMA :"schema"'; fi
  pg_restore --exit-on-error --no-owner --no-privileges --schema="$schema" --dbname="$PGDATABASE" "$1/links.dump"
  if [[ $schema != public ]]; then sql --set schema="$schema" <<<'DROP SCHEMA public; ALTER SCHEMA :"schema" RENAME TO public'; fi
  tables=$(
    sql --set form="$form" <<'SQL'
SELECT current_schema() AS schema \gset
:form :contents \gexec
SQL
  )
  differences=$(
    sql --set manifest="$manifest" --set tables="$tables" <<'SQL'
SELECT format('table %s: %s in manifest.json, %s after the restore', key, coalesce(source.value::text, 'nothing'), coalesce(copy.value::text, 'nothing'))
FROM jsonb_each(:'manifest'::jsonb -> 'tables') AS source FULL JOIN jsonb_each(:'tables'::jsonb) AS copy USING (key)
WHERE source.value IS DISTINCT FROM copy.value AND NOT EXISTS (
  -- Backups of earlier releases describe the tables of extensions too.
  SELECT FROM pg_catalog.pg_depend JOIN pg_catalog.pg_class ON classid = 'pg_catalog.pg_class'::regclass AND objid = pg_class.oid
  WHERE deptype = 'e' AND relname = key AND relnamespace = quote_ident(current_schema())::regnamespace
)
ORDER BY key LIMIT 5
SQL
  )
  [[ -z $differences ]] || die "$differences"
}
