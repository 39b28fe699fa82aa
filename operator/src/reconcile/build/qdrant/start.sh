# The server's default is every address of IPv4 and none of IPv6. A kernel without IPv6 would refuse the other one.
if [ -e /proc/net/if_inet6 ]; then
  export QDRANT__SERVICE__HOST="${QDRANT__SERVICE__HOST:-::}"
fi
exec ./entrypoint.sh
