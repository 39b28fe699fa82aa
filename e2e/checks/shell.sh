#!/usr/bin/env bash
# Runs the shell linter over every script that git knows; fragments without a first line are read through their users.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

mapfile -t scripts < <(
  git ls-files --cached --others --exclude-standard \
    | while IFS= read -r file; do
      if [[ -f $file && ! -L $file ]] && head -n 1 "$file" | grep -aqE '^#!.*(bash|/sh)$'; then printf '%s\n' "$file"; fi
    done
)
((${#scripts[@]})) || die "found no shell script"
shellcheck --severity=warning --external-sources --check-sourced --source-path=SCRIPTDIR:e2e/checks:e2e/cluster "${scripts[@]}"
say "${#scripts[@]} scripts are clean"
