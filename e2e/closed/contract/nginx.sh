# shellcheck shell=bash
# The checks of contract.sh for nginx.
# shellcheck disable=SC2154 # container, work and the names of images come from contract.sh

check_nginx() {
  is_named_by_version "$nginx_image" program_of "$nginx_image" nginx -v
  cat >"$work/nginx.conf" <<'CONF'
pid /tmp/nginx.pid;
events {}
http {
  include /etc/nginx/mime.types;
  client_body_temp_path /tmp/body; proxy_temp_path /tmp/proxy; fastcgi_temp_path /tmp/fastcgi;
  uwsgi_temp_path /tmp/uwsgi; scgi_temp_path /tmp/scgi;
  server { listen 8080; listen [::]:8080; return 200 "answered"; }
}
CONF
  docker run --detach --name "$container" "${restrictions[@]}" --user 101:101 \
    --volume "$work/nginx.conf:/etc/shortener/nginx.conf:ro" "$nginx_image" \
    sh -c "$(<"$repo/operator/core/src/plan/build/gateway/nginx/start.sh")" >/dev/null
  await in_container curl --silent --fail http://127.0.0.1:8080/
  expect "it answers as 101 with a read-only root" answered "$(in_container curl --silent http://127.0.0.1:8080/)"
  expect "it answers by IPv6 where there is any" answered "$(in_container sh -c '[ -s /proc/net/if_inet6 ] && exec curl --silent http://[::1]:8080/; printf answered')"
  expect "the stop signal stops it in order" 0 "$(stop_container)"
  docker rm "$container" >/dev/null
}
