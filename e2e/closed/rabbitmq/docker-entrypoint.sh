#!/usr/bin/env bash
# Starts RabbitMQ with the contract of the public image: as the user rabbitmq, with the settings in /etc/rabbitmq
# and in RABBITMQ_* variables, which the server reads itself. It refuses the same settings as the public image.
set -euo pipefail

if [[ "${1:-}" == rabbitmq* && "$(id -u)" == 0 ]]; then
    if [[ "$1" == rabbitmq-server ]]; then
        find /var/lib/rabbitmq \! -user rabbitmq -exec chown rabbitmq '{}' +
    fi
    exec setpriv --reuid=rabbitmq --regid=rabbitmq --init-groups "$0" "$@"
fi

refused=no
for name in RABBITMQ_DEFAULT_PASS_FILE RABBITMQ_DEFAULT_USER_FILE RABBITMQ_VM_MEMORY_HIGH_WATERMARK \
    RABBITMQ_MANAGEMENT_SSL_CACERTFILE RABBITMQ_MANAGEMENT_SSL_CERTFILE RABBITMQ_MANAGEMENT_SSL_KEYFILE \
    RABBITMQ_SSL_CACERTFILE RABBITMQ_SSL_CERTFILE RABBITMQ_SSL_KEYFILE; do
    if [[ -n "${!name:-}" ]]; then
        echo "docker-entrypoint: $name is no longer read: use a file in /etc/rabbitmq/conf.d" >&2
        refused=yes
    fi
done
[[ "$refused" == no ]] || exit 1

# A host name with a domain requires long node names.
if [[ -z "${RABBITMQ_USE_LONGNAME:-}" && "$(hostname)" != "$(hostname -s)" ]]; then
    export RABBITMQ_USE_LONGNAME=true
fi
exec "$@"
