# shellcheck shell=bash
# Runs an image registry on this machine, with crane as its client. Sourced after lib.sh.
# shellcheck disable=SC2034 # the variables are read by the scripts that source this file

registry_tools=$cluster_dir/tools/registry

# Builds the registry and crane once and puts both on the PATH.
registry_programs() {
  go_step "Build registry and crane from their Go modules" "$registry_tools"
  PATH=$(built "$registry_tools"):$PATH
}

# start_registry <folder> [address]: starts a registry on this address, 127.0.0.1 by default, that keeps its data in
# <folder>/data and its log in <folder>/log. Sets registry_address (<address>:<port>) and registry_pid.
start_registry() {
  local address=${2:-127.0.0.1} folder deadline
  registry_programs
  mkdir -p "$1/data"
  folder=$(cd "$1" && pwd)
  : >"$folder/log"
  cat >"$folder/config.yml" <<CONFIG
version: 0.1
log: {level: info}
storage:
  filesystem: {rootdirectory: "$folder/data"}
http: {addr: "$address:0"}
CONFIG
  OTEL_TRACES_EXPORTER=none registry serve "$folder/config.yml" >"$folder/log" 2>&1 </dev/null &
  registry_pid=$!
  deadline=$((SECONDS + 30))
  # The kernel chooses the port.
  until registry_address=$(sed -n "s/.*listening on \($address:[0-9]*\).*/\1/p" "$folder/log") \
    && [[ -n $registry_address ]] && curl --silent --fail --output /dev/null "http://$registry_address/v2/"; do
    if ! kill -0 "$registry_pid" 2>/dev/null || ((SECONDS >= deadline)); then
      tail -n 10 "$folder/log" >&2
      stop_registry
      die "the registry on $address did not answer within 30 s" "read $folder/log"
    fi
    sleep 0.1
  done
}

# Stops the registry and waits until it has ended.
stop_registry() {
  if [[ -z ${registry_pid:-} ]]; then return 0; fi
  kill "$registry_pid" 2>/dev/null || true
  wait "$registry_pid" 2>/dev/null || true
  registry_pid=''
}
