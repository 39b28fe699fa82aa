# Uploads the backup of this pod, and removes the oldest ones, but never the newest one that was verified.
path=$(echo "$folder"/2*Z)
backup=$(basename "$path")
bytes=$(wc -c <"$path/links.dump")
# Secrets leave the cluster only encrypted.
if [ -z "${ENCRYPTION_PASSWORD:-}" ]; then rm -f "$path/secrets.yaml"; fi
# What an interrupted upload has left. A younger folder may be of one that still runs.
old=$(date -u -d "@$(($(date +%s) - 86400))" +%Y%m%d%H%M%S)
listed manifest.json >"$work/finished"
listed links.dump | grep -vxF -e - -f "$work/finished" | while read -r name; do
  if [ "$(printf '%s' "$name" | tr -d TZ)" -lt "$old" ]; then rclone purge "$place$name"; fi
done
identity() { sed -n 's/^ *"identity": "\(.*\)".*/\1/p' "$1"; }
own=$(identity "$path/manifest.json")
# is_of_another <backup>: whether that backup is of another database. Before its first migration a database has no identity.
is_of_another() {
  rclone cat "$place$1/manifest.json" >"$work/manifest.json" || exit 1
  owner=$(identity "$work/manifest.json")
  [ -n "$owner" ] && [ "$owner" != "$own" ]
}
newest=$(sed -n 1p "$work/finished")
if [ -n "$newest" ] && is_of_another "$newest"; then
  printf 'error: the bucket has backups of another database here, the newest is %s: set another database.backup.s3.prefix, or begin the database with it (database.restoreFrom)\n' "$newest" >&2
  exit 1
fi
rclone copy --exclude /manifest.json "$path" "$place$backup"
rclone check --one-way --download --exclude /manifest.json "$path" "$place$backup"
rclone copy "$path/manifest.json" "$place$backup"
verified=$(listed verified)
verified=$(printf '%s\n' "$verified" | sed -n 1p)
all=$(listed manifest.json)
printf '%s\n' "$all" | sed "1,${KEEP}d" | while read -r name; do
  if [ -n "$name" ] && [ "$name" != "$verified" ] && ! is_of_another "$name"; then
    rclone deletefile "$place$name/manifest.json"
    rclone purge "$place$name"
  fi
done
printf 'backup=%s\nbytes=%s\n' "$backup" "$bytes" >"$result"
