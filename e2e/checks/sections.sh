#!/usr/bin/env bash
# Counts the passed cluster tests by section of the specification, and fails when a section has none.
#
#   e2e/checks/sections.sh <log of cargo test>...
#
# A test file names its sections in a line `//! Specification: 3.1, 2.2.`, and a test of other sections than its
# file has a line `/// Specification: 7.` of its own.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# The sections that a running stack can be tested for. The specification's first section is an overview of
# the others. Of section 5, viewers and administrator of the dashboards need the image of the managed
# backend: only its objects are tested.
sections='2.1 short link
2.2 cache entry
2.3 job message
2.4 responses
2.5 queue statistics
2.6 vector collection and point
2.7 telemetry records
3.1 states of a cache entry
3.2 states of a job
4.1 gateway routes
4.2 headers set by the gateway
4.3 application routes
4.4 vector database
4.5 behavioral rules
5 authentication
6 events
7 errors
8 limits'

# Prints one line for each file and each test that names sections: the path of its module, a tab, the sections.
named() {
  find e2e/tests -name '*.rs' -print0 | xargs -0 awk '
    FNR == 1 {
      module = FILENAME
      sub(/^e2e\/tests\/[^\/]*\//, "", module)
      sub(/\.rs$/, "", module)
      gsub("/", "::", module)
      own = ""
    }
    /^\/\/! Specification: / { sub(/^.*: /, ""); sub(/\.$/, ""); print module "\t" $0 }
    /^ *\/\/\/ Specification: / { sub(/^.*: /, ""); sub(/\.$/, ""); own = $0 }
    own != "" && match($0, /async fn [a-z0-9_]+/) {
      print module "::" substr($0, RSTART + 9, RLENGTH - 9) "\t" own
      own = ""
    }'
}

awk -F '\t' -v list="$sections" '
  FNR == NR { sections[$1] = $2; next }
  match($0, /^test [a-z0-9_:]+ \.\.\. ok/) {
    path = $0
    sub(/^test /, "", path)
    sub(/ .*/, "", path)
    name = path
    sub(/.*::/, "", name)
    found = ""
    # Modules between a file and its test come from a macro.
    for (module = path; found == "" && module != ""; ) {
      if ((module "::" name) in sections) found = sections[module "::" name]
      else if (module in sections) found = sections[module]
      if (module !~ /::/) break
      sub(/::[^:]*$/, "", module)
    }
    if (found == "") beside++
    count = split(found, of, ", ")
    for (i = 1; i <= count; i++) {
      if (!(index("\n" list, "\n" of[i] " "))) { print "error: " path " names section " of[i] ", which the list in e2e/checks/sections.sh lacks"; failed = 1 }
      tests[of[i]]++
    }
  }
  END {
    print "Cluster tests by section of the specification (a test may be about several):"
    count = split(list, lines, "\n")
    for (i = 1; i <= count; i++) {
      section = lines[i]
      sub(/ .*/, "", section)
      printf "%-44s %4d\n", lines[i], tests[section]
      if (!tests[section]) { print "error: no passed test names section " section " of the specification"; failed = 1 }
    }
    printf "%-44s %4d\n", "about the operator and the cluster", beside
    exit failed
  }' <(named) "$@"
