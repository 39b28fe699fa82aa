# shellcheck shell=bash
# Sourced after lib.sh: reads the examples, and provides the definitions of other projects' kinds.

examples_folder=e2e/examples

# definitions <folder>: copies the files of definitions.txt into it.
definitions() {
  local folder=$1 module file
  mkdir -p "$folder"
  grep -v '^#' "$examples_folder/definitions.txt" | while read -r module file; do
    module=$(module_dir "$examples_folder/definitions" "$module")
    cp --no-preserve=mode "$module/$file" "$folder" || die "the module in $module has no file $file" "correct e2e/examples/definitions.txt"
  done
}

# as_json <file of YAML>...: prints every document, one per line.
as_json() {
  local chart
  chart=$(mktemp -d)
  cp -r "$examples_folder/documents/." "$chart"
  mkdir "$chart/documents"
  cp --no-preserve=mode --backup=numbered "$@" "$chart/documents"
  helm template documents "$chart" | grep '^{' || die "these files have no YAML document: $*" "see the error of helm above"
  rm -rf "$chart"
}
