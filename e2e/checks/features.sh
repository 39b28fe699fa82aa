#!/usr/bin/env bash
# A build of the programs and a build of the tests must have the same features in every crate, or each crate is compiled
# twice: minutes of every cold run. What a dev-dependency turns on is therefore named in e2e/Cargo.toml too.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# features <kinds of dependencies>: every crate of the workspace with its features. What runs at compile time is left out:
# a crate can be there with other features, and would hide the difference.
features() {
  cargo tree --locked --workspace --target "$(rustc -vV | sed -n 's/^host: //p')" --edges "$1,no-proc-macro" --prefix none --format '{p} {f}' \
    | sed 's/ (\*)$//' | sort -u
}

tests=$(features normal,dev)
differing=$(comm -23 <(features normal) <(printf '%s\n' "$tests"))
[[ -z $differing ]] || die "the tests build these crates with more features than the programs do:
$differing" "add the features that \`cargo tree --workspace -e features -i <crate>\` shows as [dev-dependencies] to the [dependencies] of e2e/Cargo.toml"
say "programs and tests share one build of $(wc -l <<<"$tests") crates"
