# Uploads the backup of this pod, and removes the oldest ones, but never the newest one that was verified.
path=$(echo "$folder"/2*Z)
backup=$(basename "$path")
bytes=$(wc -c <"$path/links.dump")
# Secrets leave the cluster only encrypted.
if [ -z "${ENCRYPTION_PASSWORD:-}" ]; then rm -f "$path/secrets.yaml"; fi
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
