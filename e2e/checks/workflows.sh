#!/usr/bin/env bash
# Checks the workflows of the project and of examples/ci: actionlint accepts them, every foreign action is pinned to a
# commit, rights are explicit, and every command is one script of this repository, because the tests can run scripts.
#
#   e2e/checks/workflows.sh [folder of another checkout]
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

tool=$cluster_dir/tools/actionlint
go_step "Build actionlint from its Go module" "$tool"
cd "${1:-$repo}"
failed=0
complain() {
  printf 'error: %s\n' "$*" >&2
  failed=1
}

# runs_a_script <command>: true for a script of this repository with its arguments, alone on its line.
runs_a_script() {
  local command=${1#sudo } program
  if [[ $command =~ [\;\&\|\<\>\`] || $command == *'$('* ]]; then return 1; fi
  # While a composite action runs, this expression is its folder.
  program=${command/#'${{ github.action_path }}'/$(dirname "$file")}
  program=${program%% *}
  [[ -f $program && -x $program ]]
}

mapfile -t workflows < <(find .github/workflows -name '*.yml' -o -name '*.yaml' | sort)
mapfile -t examples < <(find examples/ci -name '*.yml' | sort)
((${#workflows[@]} > 0 && ${#examples[@]} > 0)) || die "there is no workflow in .github/workflows or in examples/ci" "restore it: git checkout .github/workflows examples/ci"
# An action is not a workflow; actionlint checks it where a workflow uses it.
linted=()
for file in "${workflows[@]}" "${examples[@]}"; do
  if [[ $(basename "$file") != action.yml ]]; then linted+=("$file"); fi
done
"$(built "$tool")/actionlint" -no-color "${linted[@]}" || complain "actionlint reports the errors above"

for file in "${workflows[@]}" "${examples[@]}"; do
  # Comments may contain words that commands may not.
  while IFS=: read -r line text; do
    command=$(sed -E 's/^[- ]*run: *//' <<<"$text")
    runs_a_script "$command" || complain "$file:$line must run exactly one script of this repository: $text"
  done < <(grep -nE '(^|[-{, ])run:' "$file" | grep -vE '^[0-9]+: *#')
  while IFS=: read -r line text; do
    [[ $text =~ uses:\ (\./|shortenerstack/) || $text =~ uses:\ [a-z0-9-]+/[a-z0-9/-]+@[0-9a-f]{40}\ \#\ v[0-9] ]] \
      || complain "$file:$line must name a commit, with its version in a comment behind it: $text"
  done < <(grep -nE '(^|[-{, ])uses:' "$file" | grep -vE '^[0-9]+: *#')
  if [[ $(basename "$file") != action.yml ]]; then
    grep -q '^permissions:' "$file" || complain "$file has no permissions, so it gets those of the repository's settings: add permissions"
  fi
done

lines=$(grep -c . examples/ci/workflow.yml)
((lines < 15)) || complain "examples/ci/workflow.yml has $lines lines: shorten it to fewer than 15, because it shows how little is needed"
((failed == 0)) || exit 1
say "${#linted[@]} workflows run scripts of this repository and nothing else"
