# Dumps the database and writes the manifest, both from one snapshot, and removes the oldest backups.

# Dumps the schema of the role, where the app has its tables, and describes the dump. psql keeps the snapshot and the tables
# meanwhile, so no limit on idle sessions may hold.
dump() {
  export DUMP=$1/links.dump MANIFEST=$1/manifest.json CONNECTION=$connection BACKUP=$2
  sql --dbname="$connection" --set form="$form" <<'SQL'
\getenv backup BACKUP
\getenv dump DUMP
\getenv image IMAGE
\getenv manifest MANIFEST
\o /dev/null
SET statement_timeout = 0;
SET lock_timeout = '600s';
SET idle_in_transaction_session_timeout = 0;
SELECT set_config(name, '0', false) FROM pg_catalog.pg_settings WHERE name = 'transaction_timeout';
:form
SELECT current_schema() AS schema, current_setting('server_version') AS server \gset
\if :{?schema}
\else
  \warn 'error: no schema of the search_path of the role exists'
  \quit
\endif
-- The locks come before the snapshot and last until the end: a migration in between would change what is counted, and not what is
-- dumped.
SELECT coalesce('LOCK TABLE ' || string_agg(format('%I.%I', nspname, relname), ', ' ORDER BY pg_class.oid) || ' IN ACCESS SHARE MODE', '') AS lock
FROM :dumped \gset
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
:lock;
\o
SELECT pg_export_snapshot() AS snapshot \gset
\setenv SNAPSHOT :snapshot
\setenv SCHEMA :schema
-- psql has waited for other locks already. What waits now waits for psql, and could not end before this does.
\! pg_dump --dbname="$CONNECTION" --snapshot="$SNAPSHOT" --schema="\"$SCHEMA\"" --format=custom --compress=zstd --lock-wait-timeout=5s --file="$DUMP"
\if :SHELL_ERROR
  \quit
\endif
-- A dump that was cut has no more than the beginning, and only a restore reads every block.
\! pg_restore --file=/dev/null "$DUMP"
\if :SHELL_ERROR
  \quit
\endif
\set bytes `wc -c <"$DUMP"`
\set sha256 `sha256sum <"$DUMP" | cut -d ' ' -f 1`
:contents \gset
:query \gset
SELECT to_regclass(format('%I._sqlx_migrations', :'schema')) IS NOT NULL AS migrated \gset
\if :migrated
  SELECT coalesce(max(version), 0) AS version FROM :"schema"._sqlx_migrations \gset
\else
  \set version 0
\endif
SELECT to_regclass(format('%I.database_identity', :'schema')) IS NOT NULL AS identified \gset
\set identity ''
\if :identified
  SELECT id AS identity FROM :"schema".database_identity \gset
\endif
\o :manifest
SELECT jsonb_pretty(jsonb_build_object(
  'name', :'backup', 'image', :'image', 'server', :'server', 'schema', :'schema', 'schemaVersion', :version,
  'identity', :'identity', 'dump', jsonb_build_object('bytes', :bytes, 'sha256', :'sha256'),
  'tables', :'tables'::jsonb
));
SQL
}

# describe <folder>: adds what a restore needs beside the database: the stack's resource, and the Secrets that no stack can
# make again. The operator renders all of a Secret but its data. Names such as `no` and `007` are text only in quotes.
describe() {
  local stack=${STACK_FOLDER:-/etc/shortener/stack} secrets=${SECRETS_FOLDER:-/etc/shortener/secrets} secret file
  cp "$stack/stack.yaml" "$1"
  for secret in "$stack"/*.secret.yaml; do
    cat "$secret"
    printf 'data:\n'
    for file in "$secrets/$(basename "$secret" .secret.yaml)"/*; do
      if [[ -f $file ]]; then printf '  "%s": "%s"\n' "$(basename "$file")" "$(base64 <"$file" | tr -d '\n')"; fi
    done
    printf -- '---\n'
  done >"$1/secrets.yaml"
}

# identity <manifest>: prints the identity of the database of a backup.
identity() { sed -n 's/^ *"identity": "\(.*\)".*/\1/p' "$1"; }

# is_of_another <backup>: whether that backup is of another database than this one, whose identity is $own. Before its first migration a
# database has none.
is_of_another() {
  local owner
  owner=$(identity "$folder/$1/manifest.json")
  [[ -n $owner && $owner != "$own" ]]
}

# Ends if the newest backup is of another database, whose backups this one would replace one by one.
refuse_another() {
  local newest
  newest=$(finished | sed -n 1p)
  if [[ -n $newest ]] && is_of_another "$newest"; then
    die "the volume has backups of another database, the newest is $newest: begin the database with it (database.restoreFrom), or delete the volume claim of the backups if nobody needs them"
  fi
}

# Removes all but the newest backups of this database, and never the newest one that was verified.
prune() {
  local kept=0 verified=no name
  while IFS= read -r name; do
    if is_of_another "$name"; then
      continue
    elif ((kept < KEEP)); then
      kept=$((kept + 1))
    elif [[ $verified == yes || ! -e $folder/$name/verified ]]; then
      # Without a manifest it is no backup, also when this is interrupted.
      rm "$folder/$name/manifest.json"
      rm -r "${folder:?}/$name"
      continue
    fi
    if [[ -e $folder/$name/verified ]]; then verified=yes; fi
  done < <(finished)
}

begin=$SECONDS
backup=$(date -u +%Y%m%dT%H%M%SZ)
part=$folder/$backup.part
# A run that a user starts may meet another one.
exec 9>"$folder/.lock"
flock -n 9 || die "another backup is being made"
# What an interrupted run has left.
rm -rf "$folder"/*.part
mkdir "$part"
trap 'rm -rf "$part"' EXIT
describe "$part"
connect
dump "$part" "$backup"
# psql succeeds also when a program that it runs does not.
[[ -s $part/manifest.json ]] || exit 1
own=$(identity "$part/manifest.json")
refuse_another
sync "$part"/* "$part"
mv -T "$part" "$folder/$backup"
sync "$folder"
prune
bytes=$(wc -c <"$folder/$backup/links.dump")
printf 'backup=%s\nbytes=%s\nseconds=%s\n' "$backup" "$bytes" "$((SECONDS - begin))" >"$result"
printf 'the backup %s has %s bytes\n' "$backup" "$bytes"
