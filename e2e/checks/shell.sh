#!/usr/bin/env bash
# Runs the shell linter over every tracked script; a fragment without a first line is checked
# through the scripts that source it.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

mapfile -t scripts < <(
  git ls-files --cached --others --exclude-standard \
    | while IFS= read -r file; do
      if [[ -f $file && ! -L $file ]] && sed -n 1p "$file" | grep -aE '^#!.*(bash|/sh)$' >/dev/null; then printf '%s\n' "$file"; fi
    done
)
((${#scripts[@]})) || die "git ls-files lists no shell script" "run this in a checkout"
shellcheck --severity=warning --external-sources --check-sourced --source-path=SCRIPTDIR:e2e/checks:e2e/cluster:e2e/closed "${scripts[@]}"

# A reader that stops at the first match breaks the pipe of a writer that has not finished. With pipefail that is a
# failure that depends on the load.
if early=$(git grep --untracked -nE '^ *head\b|(^|[^|])\| *(head\b|grep +(-[A-Za-z]*[qm]|--quiet|--max-count))' -- '*.sh' ':!e2e/checks/shell.sh'); then
  printf '%s\n' "$early" >&2
  die "the pipes above end in a reader that stops early" "use sed -n 1p for head -n 1, and grep … >/dev/null for grep -q"
fi
# Redirections apply from left to right: after 2>/dev/null, >&2 discards the output too.
if discarded=$(git grep --untracked -nE '2>/dev/null.*[^0-9]>&2' -- '*.sh' ':!e2e/checks/shell.sh'); then
  printf '%s\n' "$discarded" >&2
  die "the lines above send their output to /dev/null" "write >&2 2>/dev/null"
fi
say "${#scripts[@]} scripts are clean"
