#!/usr/bin/env bash
# cargo-deny (licences, sources, banned and duplicate crates, advisories) and cargo-machete (unused dependencies).
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# Builds a tool once per version and keeps it in the cache. It runs in `/`, or this project's build flags would
# apply, and without optimization, because compiling takes far longer than either tool ever runs.
cargo_tool() {
  local name=$1 version=$2 home
  home=$cache/tools/$name-$version
  if [[ ! -x $home/bin/$name ]]; then
    say "building $name $version"
    rm -rf "$cache"/tools/"$name"-*
    (cd / && CARGO_TARGET_DIR=$cache/tools/build-$name CARGO_PROFILE_DEV_DEBUG=0 \
      cargo "+$toolchain" install --quiet --debug --locked --root "$home" --version "$version" "$name" >&2)
    rm -rf "$cache/tools/build-$name"
  fi
  printf '%s\n' "$home/bin/$name"
}

toolchain=$(sed -n 's/^channel = "\(.*\)"/\1/p' rust-toolchain.toml)
deny=$(cargo_tool cargo-deny 0.20.2)
machete=$(cargo_tool cargo-machete 0.9.2)

# deny <checks>: checks the workspace and the stand-in for Qdrant, which is compiled separately. Neither uses every
# licence that the other may use.
deny() {
  local manifest
  for manifest in Cargo.toml e2e/images/qdrant/Cargo.toml; do
    "$deny" --log-level warn --manifest-path "$manifest" --config deny.toml check --hide-inclusion-graph \
      --allow license-not-encountered --allow license-exception-not-encountered "$@"
  done
}

deny bans licenses sources

# The advisory database is a repository of its own, which a closed network does not reach.
database=https://github.com/rustsec/advisory-db
if timeout 20 git ls-remote --exit-code "$database" HEAD >/dev/null 2>&1; then
  deny advisories
else
  say "note: $database cannot be reached, so advisories were not checked"
fi

"$machete" .
