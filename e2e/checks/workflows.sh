#!/usr/bin/env bash
# Checks the workflows of the project and of examples/ci with actionlint; e2e/tests/offline/workflows.rs checks what they
# run.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

tool=$cluster_dir/tools/actionlint
go_step "Build actionlint from its Go module" "$tool"
# An action is not a workflow; actionlint checks it where a workflow uses it.
find .github/workflows examples/ci \( -name '*.yml' -o -path '.github/*.yaml' \) ! -name action.yml -print0 \
  | xargs -0 "$(built "$tool")/actionlint" -no-color
