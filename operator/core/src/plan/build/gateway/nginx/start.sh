# Fits the configuration to this machine and to the nginx of this image, and starts nginx.
set -eu
config=/tmp/nginx.conf
cat /etc/shortener/nginx.conf >"$config"

# A kernel without IPv6 has no address [::], and nginx would fail to start.
if [ ! -e /proc/net/if_inet6 ]; then
  echo 'this machine has no IPv6: only connections by IPv4 are taken' >&2
  sed -i '/listen \[::\]/d' "$config"
fi

# nginx reads no resolv.conf and completes no names. Only since 1.27.3 does it follow the addresses of a name.
if grep -q '#pods ' "$config"; then
  servers=$(sed -nE 's/^nameserver +([0-9.]+) *$/\1/p; s/^nameserver +([0-9A-Fa-f.]*:[0-9A-Fa-f:.]+) *$/[\1]/p' /etc/resolv.conf | tr '\n' ' ')
  domain=$(sed -nE 's/^search( .*)? svc\.([a-z0-9.-]*[a-z0-9]).*/\2/p' /etc/resolv.conf | tail -n 1)
  sed "s/#pods //; s/DNS_SERVERS/$servers/; s/CLUSTER_DOMAIN/$domain/; s/ max_fails=0;/ max_fails=0 backup;/" "$config" >/tmp/pods.conf
  if [ -n "$servers" ] && [ -n "$domain" ] && nginx -t -q -e stderr -c /tmp/pods.conf 2>/dev/null; then
    config=/tmp/pods.conf
  else
    echo 'requests go to the Service of the app, because nginx cannot look for its pods: it is older than 1.27.3, or the pod does not use the DNS of the cluster' >&2
  fi
fi

# Without -e, nginx opens the log file of its build before it reads the configuration.
exec nginx -e stderr -c "$config" -g 'daemon off;'
