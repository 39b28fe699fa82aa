#!/usr/bin/env bash
# Compares the sources of the programs, as cargo recorded them when it compiled on this machine, with the context
# that .dockerignore leaves for the container that compiles elsewhere. Needs an engine, and runs after a build.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

work=$(mktemp -d)
image=localhost/shortener-context:$$
trap 'docker image rm "$image" >/dev/null 2>&1 || true; rm -rf "$work"' EXIT

# The files of this checkout that the programs depend on, relative to it; cargo may record
# a path through another folder.
sources() {
  cat "$CARGO_TARGET_DIR/$(host_triple)"/quick/{operator,kubectl-shortener,app,worker,echo,load,otlp-sink}.d | tr ' ' '\n' \
    | grep "^$repo/" | xargs realpath --relative-to "$repo" | sort -u
}

printf 'FROM scratch\nCOPY . /\n' >"$work/Dockerfile"
docker_build --quiet --tag "$image" --file "$work/Dockerfile" "$repo" >/dev/null
container=$(docker create "$image" none)
mkdir "$work/context"
docker cp "$container:/." "$work/context"
docker rm "$container" >/dev/null

sources >"$work/sources"
(($(wc -l <"$work/sources") > 50)) || die "cargo recorded only $(wc -l <"$work/sources") source files" "compile first, with e2e/images/build.sh"
absent=$(while IFS= read -r file; do [[ -e $work/context/$file ]] || printf '%s\n' "$file"; done <"$work/sources")
[[ -z $absent ]] || die "the build context of the programs lacks: $absent" "add it to .dockerignore with a leading !"
for file in Cargo.toml Cargo.lock .cargo/config.toml e2e/images/programs/manifests.sh; do
  [[ -e $work/context/$file ]] || die "the build context of the programs lacks: $file" "add it to .dockerignore with a leading !"
done
[[ ! -e $work/context/.git && ! -e $work/context/target ]] || die "the build context of the programs has .git or target" "exclude both in .dockerignore"
say "$(wc -l <"$work/sources") sources are in the context ($(du -sk "$work/context" | cut -f 1) KiB)"
