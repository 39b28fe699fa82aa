set -eu
# The programs write beside themselves, and the image's own folder is not to be written to.
ln -sf /otel-lgtm/* /work/
ln -sf /etc/shortener/config/prometheus.yaml /work/prometheus.yaml
# Grafana takes a password from the environment only for a new database.
if [ -e /data/grafana/data/grafana.db ]; then
  export GF_PATHS_DATA=/data/grafana/data
  cd /otel-lgtm/grafana
  printf '%s\n' "$GF_SECURITY_ADMIN_PASSWORD" | ./bin/grafana cli --homepath /otel-lgtm/grafana admin reset-admin-password --password-from-stdin
fi
