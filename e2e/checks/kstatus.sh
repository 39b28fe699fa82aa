#!/usr/bin/env bash
# Checks the status of a stack for GitOps tools over its life, with the library that Flux and Helm use. The objects
# are the golden ones with which the unit tests compare the operator's statuses.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

module=$cluster_dir/tools/kstatus
go_step "Build kstatus from its Go module" "$module"
"$(built "$module")/kstatus" operator/core/snapshots
