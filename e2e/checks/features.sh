#!/usr/bin/env bash
# Checks that a build of the programs and a build of the tests have the same features in every crate; otherwise each
# crate is compiled twice, which costs minutes. So e2e/Cargo.toml must name the features that a dev-dependency enables.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# features <kinds of dependencies>: prints every crate of the workspace with its features, without build-time
# crates: a crate can exist there with other features, which would hide the difference.
features() {
  cargo tree --locked --workspace --target "$(rustc -vV | sed -n 's/^host: //p')" --edges "$1,no-proc-macro" --prefix none --format '{p} {f}' \
    | sed 's/ (\*)$//' | sort -u
}

tests=$(features normal,dev)
differing=$(comm -23 <(features normal) <(printf '%s\n' "$tests"))
[[ -z $differing ]] || die "the tests build these crates with more features than the programs do:
$differing" "add the features that \`cargo tree --workspace -e features -i <crate>\` shows as [dev-dependencies] to the [dependencies] of e2e/Cargo.toml"
say "programs and tests share one build of $(wc -l <<<"$tests") crates"
