# Marks the backup that was verified, so that it is not removed before a newer one was.
backup=$(<"$work/backup")
if [[ -n $backup ]]; then touch "$folder/$backup/verified"; fi
printf 'backup=%s\n' "$backup" >"$result"
