# Begins a new database with a backup, before its server starts. The server's own script initialises a folder beside that
# of the data, and only what was restored and compared as a whole becomes the data.
data=${DATA_FOLDER:-/var/lib/postgresql/data}
if [[ -e $data/pgdata/restored ]]; then
  { read -r began; read -r place; } <"$data/pgdata/restored"
  [[ ${RESTORE_BACKUP:-$began} == "$began" && $place == "$RESTORE_PLACE" ]] \
    || die "the database began with the backup $began of $place before, and its data stays as it is: remove database.restoreFrom to use it, or delete the volume claim of the database to begin with ${RESTORE_BACKUP:-the newest backup} of $RESTORE_PLACE"
  printf 'the database began with the backup %s before\n' "$began"
  exit
fi
[[ ! -e $data/pgdata ]] || die "the volume of the database has data already, which stays as it is: remove database.restoreFrom to use it, or delete the volume claim of the database to begin with the backup"
backup=${RESTORE_BACKUP:-$(finished | sed -n 1p)}
[[ -n $backup ]] || die "the place of database.restoreFrom has no finished backup"
[[ -e $folder/$backup/manifest.json ]] || die "the place of database.restoreFrom has no finished backup of the name $backup: it has $(finished | paste -s -d ,)"
rm -rf "$data/restoring"
export PGDATA=$data/restoring
docker-entrypoint.sh postgres -c listen_addresses=127.0.0.1 -c huge_pages=off -c max_wal_size=256MB &
server=$!
# Until then, it initialises the folder and does not listen there.
until pg_isready --quiet --host 127.0.0.1 --username "$POSTGRES_USER" --dbname "$POSTGRES_DB"; do
  kill -0 "$server" 2>/dev/null || die "the server did not start"
  sleep 0.5
done
export PGUSER=$POSTGRES_USER PGDATABASE=$POSTGRES_DB
unset PGDATA
restore "$folder/$backup"
kill -INT "$server"
wait "$server"
printf '%s\n' "$backup" "$RESTORE_PLACE" >"$data/restoring/restored"
sync "$data/restoring/restored"
mv -T "$data/restoring" "$data/pgdata"
sync "$data"
printf 'the database begins with the backup %s\n' "$backup"
