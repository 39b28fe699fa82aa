# A kernel without IPv6 has no address ::, and the server would fail to start.
set -eu
if [ ! -e /proc/net/if_inet6 ]; then
  echo 'this machine has no IPv6: only connections by IPv4 are taken' >&2
  sed '/^[a-z]*[.]tcp[.]ip /d' "$RABBITMQ_CONFIG_FILE" >/tmp/rabbitmq.conf
  export RABBITMQ_CONFIG_FILE=/tmp/rabbitmq.conf
fi
exec rabbitmq-server
