# Downloads the newest finished backup, or the one of a name. A database with data needs none, so that its server also starts
# while the bucket is away.
if [ -e "${DATA_FOLDER:-/var/lib/postgresql/data}/pgdata" ]; then exit; fi
backup=${RESTORE_BACKUP:-}
if [ -z "$backup" ]; then
  all=$(listed manifest.json)
  backup=$(printf '%s\n' "$all" | sed -n 1p)
fi
if [ -n "$backup" ]; then
  rclone copy "$place$backup" "$folder/$backup"
  printf 'backup=%s\n' "$backup"
fi
