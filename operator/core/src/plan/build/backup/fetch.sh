# Downloads the newest finished backup, or the one of a name.
backup=${RESTORE_BACKUP:-}
if [ -z "$backup" ]; then
  all=$(listed manifest.json)
  backup=$(printf '%s\n' "$all" | sed -n 1p)
fi
if [ -n "$backup" ]; then
  rclone copy "$place$backup" "$folder/$backup"
  printf 'backup=%s\n' "$backup"
fi
