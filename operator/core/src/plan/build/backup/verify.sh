# Restores the newest finished backup, and names it for the containers after this one.
backup=$(finished | sed -n 1p)
if [[ -z $backup ]]; then
  printf 'there is no finished backup yet\n'
  : >"$work/backup"
  exit
fi
# The first line of the log, which a failure reports.
printf 'backup=%s\n' "$backup" >&2
restore "$folder/$backup"
printf '%s' "$backup" >"$work/backup"
