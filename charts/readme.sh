#!/usr/bin/env bash
# Prints the README of the chart: a description, and a table of the values from the comments in values.yaml. With
# --write, writes README.md instead. e2e/checks/chart-package.sh compares the file with the output.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/shortener-operator"

# Prints one row for each value: its path, its default, and the comment above it, which every value must have. In
# values.yaml each value is on one line, and each level is indented by two spaces; anything else is an error.
table() {
  awk '
    function fail(reason) {
      printf "error: values.yaml, line %d: %s\n", NR, reason >"/dev/stderr"
      failed = 1
      exit 1
    }
    function cell(text) {
      gsub(/[|]/, "\\|", text)
      return text
    }
    BEGIN { print "| value | default | meaning |\n| --- | --- | --- |" }
    /^ *$/ { comment = ""; next }
    /^ *# / {
      text = $0
      sub(/^ *# /, "", text)
      comment = comment (comment == "" ? "" : " ") text
      next
    }
    /^ *[A-Za-z0-9]+:( |$)/ {
      match($0, /^ */)
      if (RLENGTH % 2) fail("indent by two spaces")
      depth = RLENGTH / 2
      if (depth > level + (parent ? 1 : 0)) fail("this key has no parent")
      level = depth
      name = $1
      sub(/:$/, "", name)
      path[depth] = (depth ? path[depth - 1] "." : "") name
      value = $0
      sub(/^ *[A-Za-z0-9]+: */, "", value)
      parent = (value == "")
      if (!parent && comment == "") fail("explain " path[depth] " in a comment above it")
      if (comment != "")
        printf "| `%s` | %s | %s |\n", path[depth], (parent ? "" : "`" value "`"), cell(comment)
      comment = ""
      next
    }
    { fail("write a key and its value on one line: " $0) }
  ' values.yaml
}

page() {
  local name version home
  name=$(sed -n 's/^name: //p' Chart.yaml)
  version=$(sed -n 's/^version: //p' Chart.yaml)
  # The one definition of the registry that holds the releases.
  home=$(sed -n 's/^IMAGE_REPOSITORY = "\(.*\)"$/\1/p' ../../.cargo/config.toml)
  cat <<PAGE
<!-- Written by charts/readme.sh from values.yaml. -->
# $name

$(sed -n 's/^description: //p' Chart.yaml) Kubernetes $(sed -n 's/^kubeVersion: ">=\([0-9]*\.[0-9]*\).*/\1/p' Chart.yaml) or later.

\`\`\`sh
helm install $name oci://$home/charts/$name --version $version \\
  --namespace shortener-system --create-namespace
helm test $name --namespace shortener-system
\`\`\`

The notes that Helm prints list the next commands. Misspelt values and values of the wrong type are refused.

PAGE
  table
}

case ${1:-} in
  '') page ;;
  --write)
    page >README.md.part
    mv README.md.part README.md
    ;;
  *)
    printf 'error: unknown argument: %s\n  what to do: charts/readme.sh [--write]\n' "$1" >&2
    exit 1
    ;;
esac
