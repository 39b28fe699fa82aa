#!/usr/bin/env bash
# Checks the status of a stack for GitOps tools over its life, with the library that Flux and Helm use. The objects
# are the golden ones with which the unit tests compare the operator's statuses.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

module=$cluster_dir/tools/kstatus
go_step "Build kstatus from its Go module" "$module"
kstatus=$(built "$module")/kstatus

# Each state in a stack's life, and the result for a tool that waits for it. `Failed` ends the wait of Flux at once,
# so it is only for states that need an edit of the spec.
expected=(
  created=InProgress
  starting=InProgress
  ready=Current
  rolling-out=InProgress
  edited=InProgress
  failing=InProgress
  stuck=InProgress
  secret-missing=InProgress
  refused=Failed
  invalid=Failed
  paused=Current
  deleted=Terminating
)

# object <moment>: prints a snapshot without its header, which is between two lines of dashes.
object() { awk 'body {print} /^---$/ && ++dashes == 2 {body = 1}' "operator/core/snapshots/kstatus-$1.snap"; }

for pair in "${expected[@]}"; do
  moment=${pair%=*} wanted=${pair#*=}
  concluded=$(object "$moment" | "$kstatus")
  [[ ${concluded%%$'\t'*} == "$wanted" ]] || die "kstatus reads a stack in the state $moment as $concluded, not as $wanted" "see operator/core/snapshots/kstatus-$moment.snap and operator/core/src/plan/status.rs"
done

# Every golden status must have an expectation.
for file in operator/core/snapshots/kstatus-*.snap; do
  moment=${file##*/kstatus-} moment=${moment%.snap}
  [[ " ${expected[*]}" == *" $moment="* ]] || die "e2e/checks/kstatus.sh has no expectation for $file" "add $moment to expected there"
done
say "kstatus reads ${#expected[@]} states of a stack as expected"
