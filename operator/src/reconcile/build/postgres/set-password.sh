# Makes the Secret the truth about the password at every start. The server that initialises an empty volume listens on
# the same socket; it counts too, because what it writes stays. The password is in no argument and in no log.
tries=0
until psql --no-psqlrc --quiet --set ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname postgres <<'SQL'
\getenv role POSTGRES_USER
\getenv password POSTGRES_PASSWORD
SET log_statement = 'none';
SET log_min_error_statement = 'panic';
ALTER ROLE :"role" PASSWORD :'password';
SQL
do
  tries=$((tries + 1))
  # About ten minutes, so that a long recovery is not cut short; then kubelet restarts the container and says why.
  [ "$tries" -lt 1200 ] || exit 1
  sleep 0.5
done
