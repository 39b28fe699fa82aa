# A kernel without IPv6 has no address [::], and nginx would fail to start.
set -eu
config=/etc/shortener/nginx.conf
if [ ! -e /proc/net/if_inet6 ]; then
  echo 'this machine has no IPv6: only connections by IPv4 are taken' >&2
  sed '/listen \[::\]/d' "$config" >/tmp/nginx.conf
  config=/tmp/nginx.conf
fi
# Without -e, nginx opens the log file of its build before it reads the configuration.
exec nginx -e stderr -c "$config" -g 'daemon off;'
