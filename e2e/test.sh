#!/usr/bin/env bash
# Runs the checks and the tests of the project; `make test` and CI call it.
#
#   e2e/test.sh [source|unit|chart|cluster]...     all four when none is named
#   e2e/test.sh all                                all four with what they leave out otherwise; `make test-all`
#
# Steps of one stage all run; a stage starts only when nothing before it failed, but for the last steps of `all`. At the
# end there is a table of the steps and a last line `N passed, N failed`: each Rust test counts, and each other step counts
# as one.
# KEEP_CLUSTER=1 leaves the test cluster running. BUSY=2 lets two endless loops run beside the tests: a test that fails
# then depends on the speed of the machine.
source "$(dirname "${BASH_SOURCE[0]}")/checks/lib.sh"
source "$(dirname "${BASH_SOURCE[0]}")/checks/test-cluster.sh"
set +e
export CARGO_TERM_COLOR=never

passed=0
failed=0
blocked=no
wants_cluster=no
# yes for what takes too long for every run, too.
everything=no
rows=()
# What a step that passed could not check here.
unchecked=()
# The processes of the endless loops.
busy=()

stage() {
  ((failed == 0)) || blocked=yes
}

# run <check|tests> <name> <command...>
run() {
  local kind=$1 name=$2 log begin=$SECONDS status good=0 bad=0 verdict=ok
  shift 2
  if [[ $blocked == yes ]]; then
    rows+=("$name|skipped||")
    return
  fi
  log=$logs/test-$(tr -cs 'a-z0-9\n' '-' <<<"$name").log
  printf '\n=== %s\n' "$name"
  # The lock is ours alone: an engine that a step starts would hold it for ever.
  "$@" </dev/null 8>&- 2>&1 | tee "$log"
  status=${PIPESTATUS[0]}
  if [[ $kind == tests ]]; then
    read -r good bad < <(tally "$log")
    # Neither an error before the first test nor a run without tests is a success.
    if ((bad == 0 && (status != 0 || good == 0))); then bad=1; fi
  elif ((status == 0)); then
    good=1
  else
    bad=1
  fi
  if ((bad > 0)); then
    verdict=FAILED
    printf '=== %s FAILED (exit code %d), log: %s\n' "$name" "$status" "$log"
  fi
  mapfile -t -O "${#unchecked[@]}" unchecked < <(grep '^not checked: ' "$log")
  passed=$((passed + good))
  failed=$((failed + bad))
  rows+=("$name|$verdict|$good/$((good + bad))|$((SECONDS - begin))|$(load)")
}

# Like run, for steps that only `make test-all` has.
more() {
  if [[ $everything == yes ]]; then run "$@"; fi
}

# Prints the average number of processes that ran or waited for a processor in the last minute.
load() { cut -d ' ' -f 1 /proc/loadavg; }

# Prints the processor time since the machine started: used, unused, and taken by other machines on the same host.
processor_times() { awk '$1 == "cpu" { print $2 + $3 + $4 + $7 + $8, $5 + $6, $9 }' /proc/stat; }

# Starts BUSY endless loops. They end with this script, however it ends.
begin_busy_loops() {
  local number
  for ((number = 0; number < ${BUSY:-0}; number++)); do
    setpriv --pdeathsig KILL yes >/dev/null 8>&- &
    busy+=("$!")
  done
}

# tally <log>: passed and failed tests; an ignored test counts as failed, because nothing may be ignored here.
tally() {
  sed -n 's/^test result: .* \([0-9]*\) passed; \([0-9]*\) failed; \([0-9]*\) ignored;.*/\1 \2 \3/p' "$1" \
    | awk '{ passed += $1; failed += $2 + $3 } END { print passed + 0, failed + 0 }'
}

report() {
  local row name verdict tests seconds load
  printf '\n%-34s %-8s %9s %8s %6s\n' step result tests time load
  for row in "${rows[@]}"; do
    IFS='|' read -r name verdict tests seconds load <<<"$row"
    if [[ -n $seconds ]]; then seconds=$(minutes "$seconds"); fi
    printf '%-34s %-8s %9s %8s %6s\n' "$name" "$verdict" "$tests" "$seconds" "$load"
  done
  printf '%-34s %-8s %9s %8s\n\n' total '' '' "$(minutes "$SECONDS")"
  describe_machine
  if ((${#unchecked[@]})); then printf '%s\n' "${unchecked[@]}" ''; fi
  printf '%d passed, %d failed\n' "$passed" "$failed"
}

# Prints how busy the machine was since the start, because times and failures of a busy machine say less.
describe_machine() {
  local used unused stolen used_now unused_now stolen_now all
  read -r used unused stolen <<<"$times_at_start"
  read -r used_now unused_now stolen_now < <(processor_times)
  used=$((used_now - used)) unused=$((unused_now - unused)) stolen=$((stolen_now - stolen))
  all=$((used + unused + stolen))
  if ((all == 0)); then all=1; fi
  printf 'machine: %d cores, %d %% of their time in use, %d %% taken by other machines, %d endless loops beside the tests\n\n' \
    "$(nproc)" $((100 * used / all)) $((100 * stolen / all)) "${#busy[@]}"
}

minutes() {
  printf '%d:%02d' $(($1 / 60)) $(($1 % 60))
}

finish() {
  local status=$?
  trap - EXIT
  if ((${#busy[@]})); then kill "${busy[@]}"; fi
  cluster_down
  report
  if ((failed > 0)); then status=1; fi
  exit "$status"
}

formatting() {
  cargo fmt --all --check -- --color never && cargo fmt --manifest-path e2e/closed/qdrant/Cargo.toml --check -- --color never
}

source_stage() {
  stage
  run check 'formatting' formatting
  run check 'shell scripts' e2e/checks/shell.sh
  more check 'make up on a laptop' e2e/checks/portable.sh
  run check 'features of programs and tests' e2e/checks/features.sh
  run check 'clippy' cargo clippy --profile quick --workspace --all-targets -- -D warnings
  more check 'rustdoc' env RUSTDOCFLAGS='-D warnings -A rustdoc::private_intra_doc_links' \
    cargo doc --profile quick --workspace --no-deps --document-private-items
  run check 'workflows' e2e/checks/workflows.sh
}

unit_stage() {
  stage
  run check 'engine' e2e/cluster/engine.sh
  stage
  run check 'stores of the tests' e2e/checks/stores.sh
  run check 'compile' cargo build --profile quick --workspace --all-targets
  run check 'stand-in for Qdrant' e2e/closed/qdrant.sh test
  # The tests of the app and the worker watch the time, so nothing is built beside them.
  if [[ $wants_cluster == yes ]]; then run check 'tools, node and services' cluster_parts; fi
  run tests 'unit tests' e2e/checks/unit.sh
  run check 'status for GitOps tools' e2e/checks/kstatus.sh
  run check 'dependencies' e2e/checks/dependencies.sh
  more check 'release' e2e/checks/release.sh
}

chart_stage() {
  stage
  run check 'chart' e2e/checks/chart.sh
  run check 'bundle for OLM, manifest for krew' e2e/checks/catalogs.sh
  run check 'alert rules' e2e/checks/alerts.sh
  run check 'examples' e2e/checks/examples.sh
  run check 'health, for Argo CD and Flux' e2e/checks/health.sh
  run tests 'chart, examples, pages' e2e/checks/offline.sh
}

cluster_stage() {
  local left_out=() left_out_one_by_one=()
  stage
  run check 'tools, node and services' cluster_parts
  stage
  run check 'images' e2e/images/build.sh
  stage
  run check 'versions of the images' image_versions
  stage
  if [[ $blocked == no ]]; then cluster_is_up=yes; fi
  run check 'test cluster' cluster_up
  stage
  run check 'helm test' helm_test
  more check 'object store of the tests' e2e/cluster/addons/object-store.sh
  more check 'CloudNativePG' e2e/cluster/addons/cloudnative-pg.sh
  more check 'KEDA' e2e/cluster/addons/keda.sh
  more check 'metrics-server' e2e/cluster/addons/metrics-server.sh
  more check "RabbitMQ's operator" e2e/cluster/addons/rabbitmq-operator.sh
  if [[ $everything == no ]]; then
    left_out=("${slow_cluster_tests[@]/#/--skip=}")
    left_out_one_by_one=("${slow_serial_tests[@]/#/--skip=}")
  fi
  more check 'the release before' e2e/before/make.sh
  run tests 'cluster tests' cluster_tests cluster --test-threads=12 --show-output "${left_out[@]}"
  run tests 'cluster tests, one by one' cluster_tests serial --test-threads=1 --show-output "${left_out_one_by_one[@]}"
  if ((failed > 0)) && [[ $blocked == no ]]; then diagnose; fi
  # The steps below need the cluster and not each other, so they run after a failed test, too: a run of two hours names all
  # that is wrong.
  more check 'step for other CI' e2e/checks/ci-step.sh
  more check 'hardening, step by step' e2e/checks/hardening.sh
  more check 'a cluster without IPv4' e2e/checks/ipv6.sh
  # Last on its cluster, because it costs every stack there.
  more tests 'cluster tests, outages' cluster_tests outage --test-threads=1 --show-output
  # It removes the operator of the tests.
  more check 'installing by the README' e2e/checks/install.sh
}

# What needs programs of other projects, or many minutes, and no cluster. It runs after a failed test, too.
last_stage() {
  more check 'Ingresses in Traefik' e2e/checks/traefik.sh
  more tests 'requests by the OpenAPI document' e2e/checks/api.sh
  more check 'pages in a browser' e2e/checks/pages.sh
  more check 'console in a browser' e2e/checks/console.sh
  more check 'single sign-on by oauth2-proxy' e2e/checks/single-sign-on.sh
  more tests 'workers that are killed' make soak
}

# A function, because bash reads a script while it runs it, and an edit during a run would derail it.
main() {
  local name
  exec 8>"$cache/test.lock"
  flock -n 8 || die "another run of the tests has not ended" "wait until it ends: both use the cluster $CLUSTER_NAME"
  trap finish EXIT
  trap 'failed=$((failed + 1)); exit 130' INT TERM
  claim_target
  times_at_start=$(processor_times)
  begin_busy_loops
  if [[ $* == all ]]; then
    everything=yes
    export E2E_STARVE_SECONDS=${E2E_STARVE_SECONDS:-120} E2E_KILLS=${E2E_KILLS:-200}
  fi
  run check 'machine' e2e/checks/preflight.sh "$@"
  if [[ $everything == yes ]] || (($# == 0)); then set -- source unit chart cluster; fi
  if [[ " $* " == *" cluster "* ]]; then
    wants_cluster=yes
    stage
    run check 'parts of the cluster, begun' begin_cluster_parts
  fi
  for name in "$@"; do
    case $name in
      source | unit | chart | cluster) "${name}_stage" ;;
      *) die "there is no stage $name" "name one of source, unit, chart, cluster, none for the four, or all alone" ;;
    esac
  done
  last_stage
  exit
}

main "$@"
