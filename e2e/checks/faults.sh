# shellcheck shell=bash
# Starts the faulty proxy in front of a registry, see faults/main.go. Sourced after lib.sh.

# start_faults <registry> <folder>: starts the proxy in front of the registry and exports its address as SHORTENER_MIRROR.
start_faults() {
  local module=$repo/e2e/checks/faults deadline=$((SECONDS + 20))
  faults_folder=$2
  gobuild "$module" shortener.dev/e2e/faults
  plan well
  "$(built "$module" shortener.dev/e2e/faults)/faults" "$1" "$2" >"$2/address" 2>"$2/faults.log" </dev/null &
  faults_pid=$!
  until [[ -s $2/address ]]; do
    ((SECONDS < deadline)) || die "the faulty proxy did not start within 20 s: $(cat "$2/faults.log")" "see e2e/checks/faults/main.go"
    sleep 0.1
  done
  SHORTENER_MIRROR=$(<"$2/address")
  export SHORTENER_MIRROR
}

stop_faults() {
  if [[ -n ${faults_pid:-} ]]; then kill "$faults_pid" 2>/dev/null || true; fi
}

# plan <how> [count]: sets the proxy's behavior from now on.
plan() { printf '%s\n' "$*" >"$faults_folder/plan"; }
