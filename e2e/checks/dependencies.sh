#!/usr/bin/env bash
# cargo-deny (licences, sources, banned and duplicate crates, advisories) and cargo-machete (unused dependencies).
# ADVISORY_DB names a copy of the database of advisories, for a machine that does not reach it.
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
  for manifest in Cargo.toml e2e/closed/qdrant/Cargo.toml; do
    "$deny" --log-level warn --manifest-path "$manifest" --config deny.toml check --hide-inclusion-graph \
      --allow license-not-encountered --allow license-exception-not-encountered "$@"
  done
}

deny bans licenses sources

# The database of advisories is a git repository, which a closed network does not reach. git reads the copy in place of
# the address in deny.toml.
official=$(sed -n 's/^db-urls = \["\(.*\)"\]$/\1/p' deny.toml)
database=${ADVISORY_DB:-$official}
if timeout 20 git ls-remote --exit-code "$database" refs/heads/main >/dev/null 2>&1; then
  GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=url.$database.insteadOf GIT_CONFIG_VALUE_0=$official deny advisories
elif [[ -n ${ADVISORY_DB:-} ]]; then
  die "ADVISORY_DB=$ADVISORY_DB is no git repository with a branch main" "set it to a copy of $official, or unset it"
else
  say "not checked: advisories of crates, because this machine does not reach $official; ADVISORY_DB names a copy"
fi

"$machete" .
