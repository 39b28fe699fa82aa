# shellcheck shell=bash
# The checks of contract.sh for Prometheus.
# shellcheck disable=SC2154 # container, work and the names of images come from contract.sh

check_prometheus() {
  is_named_by_version "$prometheus_image" program_of "$prometheus_image" prometheus --version
  printf 'global: {scrape_interval: 1s}\nscrape_configs: [{job_name: own, static_configs: [{targets: ["localhost:9090"]}]}]\n' \
    >"$work/prometheus.yml"
  docker run --detach --name "$container" "${restrictions[@]}" --user 65534:65534 --volume "$work/data:/prometheus" \
    --volume "$work/prometheus.yml:/etc/prometheus/prometheus.yml:ro" "$prometheus_image" \
    --config.file=/etc/prometheus/prometheus.yml --storage.tsdb.path=/prometheus \
    --enable-feature=exemplar-storage >/dev/null
  await in_container curl --silent --fail http://127.0.0.1:9090/-/ready
  expect "it runs as nobody with a read-only root" 65534 "$(in_container id -u)"
  await scraped
  expect "it answers for exemplars" success \
    "$(in_container curl --silent 'http://127.0.0.1:9090/api/v1/query_exemplars?query=up&start=0&end=1' |
      sed -n 's/.*"status":"\([a-z]*\)".*/\1/p')"
  docker rm --force "$container" >/dev/null
}

scraped() {
  [[ $(in_container curl --silent 'http://127.0.0.1:9090/api/v1/query?query=up') == *',"1"]'* ]]
}
