#!/usr/bin/env bash
# Starts PostgreSQL with the contract of the public image: POSTGRES_USER, POSTGRES_PASSWORD, POSTGRES_DB (each also
# as NAME_FILE), POSTGRES_INITDB_ARGS, POSTGRES_HOST_AUTH_METHOD and PGDATA, and the scripts of
# /docker-entrypoint-initdb.d. All of them are used only when the data directory is empty.
set -Eeuo pipefail

fail() {
    echo "docker-entrypoint: $*" >&2
    exit 1
}

# read_setting NAME DEFAULT: reads NAME from NAME_FILE if that is set, so that a password need not be in the
# environment.
read_setting() {
    local name="$1" file_name="$1_FILE"
    if [[ -n "${!name:-}" && -n "${!file_name:-}" ]]; then
        fail "$name and $file_name are both set: keep one"
    fi
    if [[ -n "${!file_name:-}" ]]; then
        printf -v "$name" '%s' "$(<"${!file_name}")"
        unset "$file_name"
    fi
    printf -v "$name" '%s' "${!name:-$2}"
    export "${name?}"
}

make_directories() {
    # The socket directory may be a fresh mount, and PGDATA a directory that does not exist yet.
    mkdir -p "$PGDATA" /var/run/postgresql
    chmod 0700 "$PGDATA" || true
    if [[ "$(id -u)" == 0 ]]; then
        find "$PGDATA" \! -user postgres -exec chown postgres:postgres {} +
        chown postgres:postgres /var/run/postgresql
        chmod 03775 /var/run/postgresql
    fi
}

create_cluster() {
    local method="${POSTGRES_HOST_AUTH_METHOD:-scram-sha-256}"
    if [[ -z "$POSTGRES_PASSWORD" && "$method" != trust ]]; then
        fail "the data directory is empty and no password is given: set POSTGRES_PASSWORD to a non-empty value"
    fi
    # The arguments are split into words as a shell does.
    local -a arguments=()
    eval "arguments=(${POSTGRES_INITDB_ARGS:-})"
    initdb --username="$POSTGRES_USER" --pwfile=<(printf '%s\n' "$POSTGRES_PASSWORD") \
        --auth-local=trust --auth-host=trust "${arguments[@]}"
    printf '\nhost all all all %s\n' "$method" >>"$PGDATA/pg_hba.conf"
}

# True for arguments that print information and need no database.
only_asks() {
    local argument
    for argument in "$@"; do
        case "$argument" in
            '-?' | --help | --describe-config | -V | --version) return 0 ;;
        esac
    done
    return 1
}

# Runs a command with a server that listens only on the socket, so that no client sees an incomplete database.
with_local_server() {
    pg_ctl --pgdata="$PGDATA" --options="-c listen_addresses=''" --wait --silent start
    "$@"
    pg_ctl --pgdata="$PGDATA" --mode=fast --wait --silent stop
}

run_sql() {
    psql --no-psqlrc --no-password --set=ON_ERROR_STOP=1 --username="$POSTGRES_USER" "$@"
}

populate() {
    if [[ "$POSTGRES_DB" != postgres ]]; then
        run_sql --dbname=postgres --set=name="$POSTGRES_DB" --quiet <<<'CREATE DATABASE :"name";'
    fi
    local script
    for script in /docker-entrypoint-initdb.d/*; do
        case "$script" in
            *.sh)
                if [[ -x "$script" ]]; then
                    "$script"
                else
                    # shellcheck source=/dev/null
                    . "$script"
                fi
                ;;
            *.sql) run_sql --dbname="$POSTGRES_DB" --file="$script" ;;
            *.sql.gz) gunzip -c "$script" | run_sql --dbname="$POSTGRES_DB" ;;
            *) echo "docker-entrypoint: ignoring $script" ;;
        esac
    done
}

main() {
    # `docker run IMAGE -c setting=value` passes arguments to the server.
    if [[ "${1:-}" == -* ]]; then
        set -- postgres "$@"
    fi
    if [[ "${1:-}" != postgres ]] || only_asks "$@"; then
        exec "$@"
    fi

    make_directories
    if [[ "$(id -u)" == 0 ]]; then
        exec setpriv --reuid=postgres --regid=postgres --init-groups "$0" "$@"
    fi
    if [[ ! -s "$PGDATA/PG_VERSION" ]]; then
        read_setting POSTGRES_PASSWORD ""
        read_setting POSTGRES_USER postgres
        read_setting POSTGRES_DB "$POSTGRES_USER"
        read_setting POSTGRES_INITDB_ARGS ""
        create_cluster
        PGPASSWORD="$POSTGRES_PASSWORD" with_local_server populate
    fi
    # The server does not need the password, and other processes can read its environment.
    unset POSTGRES_PASSWORD
    exec "$@"
}

main "$@"
