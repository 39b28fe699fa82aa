# shellcheck shell=bash
# Builds programs from pinned Go modules, for machines that cannot fetch releases. Sourced
# by lib.sh; used on Linux alone.
# shellcheck disable=SC2154 # cache comes from lib.sh
set -euo pipefail

export CGO_ENABLED=0 GOWORK=off GOFLAGS=-buildvcs=false
# Caches of their own keep these large builds out of the user's caches, and have a size limit.
export GOMODCACHE=$cache/go/mod GOCACHE=$cache/go/build

# built <folder of a tool's go.mod> [package]: prints the folder of gobuild's programs.
built() {
  local key
  key=$( (content_key "$1"; go env GOVERSION GOOS GOARCH; printf '%s' "${2:-}") | sha256sum | cut -c 1-12)
  printf '%s/tools/%s-%s\n' "$cache" "$(basename "$1")${2:+-$(basename "$2")}" "$key"
}

# The linker drops debug information (-s -w), so the compiler need not write any, which saves a sixth of its work.
go_compiler_flags=all=-dwarf=false

# go_compile command args...: runs a command that compiles Go code. The compiler's processes are short, so garbage
# collection is off until one of them is large.
go_compile() { GOGC=off GOMEMLIMIT=2GiB "$@"; }

# gobuild <folder of a tool's go.mod> [package]: builds that package, or every package on its `tool` lines, once per
# content of the folder. A file `flags` beside go.mod has further arguments of `go build`, one per line.
gobuild() {
  local module=$1 package=${2:-tool} out caches turn flags=()
  out=$(built "$@")
  mkdir -p "$cache/tools"
  exec {caches}>"$cache/go.lock" {turn}>"${out%-*}.lock"
  flock --shared "$caches" # they are emptied only while no program is built
  flock "$turn"            # of two runs that need one program, the second finds the result of the first
  if [[ ! -d $out ]]; then
    if [[ -f $module/flags ]]; then mapfile -t flags <"$module/flags"; fi
    rm -rf "$out.part"
    mkdir -p "$out.part"
    (
      cd "$module"
      go_compile go build -trimpath "-gcflags=$go_compiler_flags" "${flags[@]}" -o "$out.part/" "$package"
    )
    rm -rf "${out%-*}"-???????????? # what earlier pins of this tool left
    mv "$out.part" "$out"
  fi
  exec {caches}>&- {turn}>&-
}

# go_step <title> <folder of a tool's go.mod> [package]: builds it like gobuild, as a step, if it is missing.
go_step() {
  local title=$1
  shift
  if [[ ! -d $(built "$@") ]]; then
    remedy="check that this machine reaches the Go module proxy (go env GOPROXY)" step "$title" gobuild "$@"
  fi
}

# module_dir <folder of a go.mod> <module path>: prints the unpacked source of that module, and
# downloads it if it is missing.
module_dir() {
  (cd "$1" && go mod download "$2" && go list -m -f '{{.Dir}}' "$2")
}
