set -eu
# The programs write to their own directory, and the image's directory is read-only.
ln -sf /otel-lgtm/* /work/
ln -sf /etc/shortener/config/prometheus.yaml /work/prometheus.yaml
# Grafana reads the password from the environment only for a new database.
if [ -e /data/grafana/data/grafana.db ]; then
  export GF_PATHS_DATA=/data/grafana/data
  cd /otel-lgtm/grafana
  printf '%s\n' "$GF_SECURITY_ADMIN_PASSWORD" | ./bin/grafana cli --homepath /otel-lgtm/grafana admin reset-admin-password --password-from-stdin
fi
