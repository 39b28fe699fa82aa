# Uploads the backup of this pod, and removes the oldest ones, but never the newest one that was verified.
path=$(echo "$folder"/2*Z)
backup=$(basename "$path")
bytes=$(wc -c <"$path/links.dump")
# Secrets leave the cluster only encrypted.
if [ -z "${ENCRYPTION_PASSWORD:-}" ]; then rm -f "$path/secrets.yaml"; fi
# What an interrupted upload has left. A younger folder may be of one that still runs.
old=$(date -u -d "@$(($(date +%s) - 86400))" +%Y%m%d%H%M%S)
listed manifest.json >"$work/finished"
listed links.dump | grep -vxF -f "$work/finished" | while read -r name; do
  if [ "$(printf '%s' "$name" | tr -d TZ)" -lt "$old" ]; then rclone purge "$place$name"; fi
done
identity() { sed -n 's/^ *"identity": "\(.*\)".*/\1/p' "$1"; }
newest=$(sed -n 1p "$work/finished")
if [ -n "$newest" ]; then
  rclone cat "$place$newest/manifest.json" >"$work/newest.json"
  if [ "$(identity "$work/newest.json")" != "$(identity "$path/manifest.json")" ]; then
    printf 'error: the bucket has backups of another database here, the newest is %s: set another database.backup.s3.prefix, or begin the database with it (database.restoreFrom)\n' "$newest" >&2
    exit 1
  fi
fi
rclone copy --exclude /manifest.json "$path" "$place$backup"
rclone check --one-way --download --exclude /manifest.json "$path" "$place$backup"
rclone copy "$path/manifest.json" "$place$backup"
verified=$(listed verified)
verified=$(printf '%s\n' "$verified" | sed -n 1p)
all=$(listed manifest.json)
printf '%s\n' "$all" | sed "1,${KEEP}d" | while read -r name; do
  if [ -n "$name" ] && [ "$name" != "$verified" ]; then
    rclone deletefile "$place$name/manifest.json"
    rclone purge "$place$name"
  fi
done
printf 'backup=%s\nbytes=%s\n' "$backup" "$bytes" >"$result"
