# Marks the backup that was verified, so that it is not removed before a newer one was.
backup=$(cat "$work/backup")
if [ -n "$backup" ]; then rclone touch "$place$backup/verified"; fi
printf 'backup=%s\n' "$backup" >"$result"
