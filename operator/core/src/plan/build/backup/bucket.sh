# Shared by the scripts on a bucket with backups, which sh runs with -eu in the image of rclone. The bucket has the same
# folders as a volume. A backup is complete once it has its manifest.json, which comes last and goes first.

folder=${BACKUP_FOLDER:-/backup}
result=${BACKUP_RESULT:-/dev/termination-log}
work=${BACKUP_WORK:-/tmp}
umask 077
export RCLONE_CONFIG="$work/rclone.conf" RCLONE_CACHE_DIR="$work" RCLONE_LOG_LEVEL=ERROR RCLONE_CONTIMEOUT=30s
: >"$RCLONE_CONFIG"
# By the slash it is a folder. If rclone may not look, it takes a name for a file, and that hides the reason.
place=bucket:$BUCKET/
if [ -n "${ENCRYPTION_PASSWORD:-}" ]; then
  RCLONE_CONFIG_SAFE_PASSWORD=$(printf '%s' "$ENCRYPTION_PASSWORD" | rclone obscure -)
  export RCLONE_CONFIG_SAFE_PASSWORD RCLONE_CONFIG_SAFE_TYPE=crypt RCLONE_CONFIG_SAFE_REMOTE="$place"
  export RCLONE_CONFIG_SAFE_FILENAME_ENCRYPTION=off RCLONE_CONFIG_SAFE_DIRECTORY_NAME_ENCRYPTION=false
  place=safe:
fi

# listed <file>: prints the names of the backups that have a file, the newest first. rclone ends with 3 if there is no folder.
listed() {
  rclone lsf --recursive --files-only --include "/2*Z/$1" "$place" >"$work/listed" || [ $? -eq 3 ]
  sed -n "s#/$1\$##p" "$work/listed" | sort -r
}
