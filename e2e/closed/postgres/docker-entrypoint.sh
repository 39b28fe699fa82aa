#!/usr/bin/env bash
# Starts PostgreSQL with the settings of the public image that stacks and tests use: PGDATA, and for an empty data
# directory POSTGRES_USER, POSTGRES_PASSWORD, POSTGRES_DB, POSTGRES_INITDB_ARGS and POSTGRES_HOST_AUTH_METHOD.
set -euo pipefail

user=${POSTGRES_USER:-postgres}
database=${POSTGRES_DB:-$user}

create_cluster() {
    # shellcheck disable=SC2086 # each word is an argument
    initdb --username="$user" --pwfile=<(printf '%s\n' "${POSTGRES_PASSWORD:-}") \
        --auth-local=trust --auth-host=trust ${POSTGRES_INITDB_ARGS:-}
    printf '\nhost all all all %s\n' "${POSTGRES_HOST_AUTH_METHOD:-scram-sha-256}" >>"$PGDATA/pg_hba.conf"
}

# The server listens only on the socket, so that no client sees an incomplete database.
create_database() {
    pg_ctl --pgdata="$PGDATA" --options="-c listen_addresses=''" --wait --silent start
    psql --no-psqlrc --no-password --set=ON_ERROR_STOP=1 --username="$user" --dbname=postgres \
        --set=name="$database" --quiet <<<'CREATE DATABASE :"name";'
    pg_ctl --pgdata="$PGDATA" --mode=fast --wait --silent stop
}

if [[ ${1:-} == postgres ]]; then
    mkdir -p "$PGDATA"
    # The kubelet opens a volume to its group, and the server refuses such a directory.
    chmod 0700 "$PGDATA" || true
    if [[ ! -s $PGDATA/PG_VERSION ]]; then
        create_cluster
        if [[ $database != postgres ]]; then create_database; fi
    fi
    # The server does not need the password, and other processes can read its environment.
    unset POSTGRES_PASSWORD
fi
exec "$@"
