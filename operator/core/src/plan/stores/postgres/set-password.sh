# Sets the password from the Secret at every start, so that the Secret is authoritative. The server that initialises
# an empty volume listens on the same socket. A change there is sufficient, because it persists. The password
# appears in no argument and no log.
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
  # About ten minutes, so that a long recovery is not interrupted. Then the kubelet restarts the container and reports
  # the reason.
  [ "$tries" -lt 1200 ] || exit 1
  sleep 0.5
done
