# By default, the server uses IPv4 addresses only. A kernel without IPv6 would refuse the address :: here.
if [ -e /proc/net/if_inet6 ]; then
  export QDRANT__SERVICE__HOST="${QDRANT__SERVICE__HOST:-::}"
fi
exec ./entrypoint.sh
