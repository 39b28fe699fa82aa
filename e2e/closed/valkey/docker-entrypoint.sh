#!/usr/bin/env bash
# Starts Valkey with the contract of the public image: as the user valkey, in /data, which that user owns, and with new
# files private to it. Arguments that begin with a dash, or a configuration file, are passed to the server.
set -euo pipefail

if [[ "${1:-}" == -* || "${1:-}" == *.conf ]]; then
    set -- valkey-server "$@"
fi

if [[ "${1:-}" == valkey-server || "${1:-}" == redis-server ]]; then
    if [[ "$(id -u)" == 0 ]]; then
        find . \! -user valkey -exec chown valkey '{}' +
        exec setpriv --reuid=valkey --regid=valkey --init-groups "$0" "$@"
    fi
    # The public image is compiled without protected mode: the container network decides about access.
    if [[ "$*" != *protected-mode* ]] && ! { [[ -f "${2:-}" ]] && grep -q '^[[:space:]]*protected-mode' "$2"; }; then
        if [[ "${!#}" == - ]]; then
            set -- "${@:1:$#-1}" --protected-mode no -
        else
            set -- "$@" --protected-mode no
        fi
    fi
    if [[ "$(umask)" == 0022 ]]; then
        umask 0077
    fi
fi
exec "$@"
