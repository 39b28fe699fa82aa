#!/usr/bin/env bash
# Checks the promise of v1alpha1 (docs/compatibility.md): this checkout accepts every field, every
# enumeration value and every number that a release accepted. e2e/compatibility has the fields of each
# release, as docs/reference.md named them.
#
#   compatibility.sh            compares
#   compatibility.sh --write    writes the fields of the version in Cargo.toml: a part of each release
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

folder=e2e/compatibility

# fields: prints one line per field with its type, and one more for each value and each range that it accepts.
fields() {
  awk '
    /^## / { section = substr($0, 4) }
    /^It also takes the \[pod settings\]/ { print section, "pod-settings" }
    /^\| \[?`/ {
      match($0, /`[^`]*`/)
      name = section "." substr($0, RSTART + 1, RLENGTH - 2)
      split($0, cells, " [|] ")
      type = cells[2]
      gsub(/`/, "", type)
      kind = type
      sub(/"[^"]*"( or "[^"]*")*/, "enumeration", kind)
      sub(/, .*/, "", kind)
      print name, kind
      if (match(type, /, [0-9]+ to [0-9]+/)) {
        split(substr(type, RSTART + 2, RLENGTH - 2), range, " to ")
        print name, "range", range[1], range[2]
      }
      while (match(type, /"[^"]*"/)) {
        print name, substr(type, RSTART, RLENGTH)
        type = substr(type, RSTART + RLENGTH)
      }
    }' docs/reference.md
}

# lost <fields of a release>: prints the lines of a release that the fields on standard input do not cover.
lost() {
  awk '
    FILENAME == "-" { now[$0] = 1; if ($2 == "range") { low[$1] = $3; high[$1] = $4 } next }
    $2 == "range" { if ($1 in low && (low[$1] + 0 > $3 + 0 || high[$1] + 0 < $4 + 0)) print; next }
    !($0 in now)' - "$1"
}

if [[ ${1:-} == --write ]]; then
  fields >"$folder/$version.txt"
  say "wrote $folder/$version.txt, $(wc -l <"$folder/$version.txt") lines"
  exit 0
fi

now=$(fields)
(($(wc -l <<<"$now") > 50)) || die "fewer than 50 fields were found in docs/reference.md" "adapt the function fields in e2e/checks/compatibility.sh to the page's new form"
releases=("$folder"/*.txt)
[[ -s ${releases[0]} ]] || die "$folder has no file of a release" "restore it: git checkout $folder"
for release in "${releases[@]}"; do
  gone=$(lost "$release" <<<"$now")
  [[ -z $gone ]] || die "these fields, values or ranges of release $(basename "$release" .txt) are gone or narrower:
$gone" "put them back, beside what replaces them: v1alpha1 only grows (docs/compatibility.md)"
done
say "every field that ${#releases[@]} releases accepted is still accepted"
