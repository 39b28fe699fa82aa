# Marks the backup that was verified, so that it is not removed before a newer one was.
backup=$(cat "$work/backup")
# A backup that was removed meanwhile gets no file again.
listed manifest.json >"$work/finished"
if [ -n "$backup" ] && grep -qx "$backup" "$work/finished"; then rclone touch "$place$backup/verified"; fi
printf 'backup=%s\n' "$backup" >"$result"
