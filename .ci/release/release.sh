#!/usr/bin/env bash
# Makes a whole release into $out (dist/release) without pushing it: push.sh does that, then sign.sh and publish.sh.
# Binaries for other systems that are already in $out/bin become part of it.
#
#   .ci/release/release.sh [tag]     with a tag: only from exactly that commit; without: a rehearsal
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source e2e/checks/pgo-lib.sh

check_tag() {
  local tag=$1
  [[ $tag == "v$version" ]] || die "the tag $tag is not the version $version of Cargo.toml" "tag the commit v$version, or raise the version first"
  [[ $profile == release ]] || die "PROFILE=$profile is for rehearsals" "unset PROFILE: users get the optimized profile"
  [[ -z ${IMAGE_TARGETS:-} ]] || die "IMAGE_TARGETS=$IMAGE_TARGETS is for rehearsals" "unset IMAGE_TARGETS: users get images for every architecture"
  [[ $(git rev-parse --verify --quiet "refs/tags/$tag^{commit}") == $(git rev-parse HEAD) ]] || die "HEAD is not the commit of the tag $tag" "run: git checkout $tag"
  [[ -z $(git status --porcelain) ]] || die "the checkout has changes that the tag $tag does not have" "commit or remove them: git status"
  grep -Eq "^## ${version//./\\.}( |\$)" CHANGELOG.md || die "CHANGELOG.md has no section $version" "rename its section Unreleased to $version"
  local pgo
  pgo=$(pgo_profile x86_64-unknown-linux-gnu)
  [[ -s $pgo ]] || die "$pgo, by which the app is optimized, is missing" "run make pgo on an x86-64 machine and commit the file"
}

# Prints the section of this version in CHANGELOG.md; in a rehearsal, the section of unreleased changes.
notes() {
  local heading="## $version"
  grep -Eq "^## ${version//./\\.}( |\$)" CHANGELOG.md || heading='## Unreleased'
  awk -v heading="$heading" '/^## / { inside = index($0 " ", heading " ") == 1; next } inside' CHANGELOG.md | sed '/./,$!d'
}

if (($# > 0)); then check_tag "$1"; fi
rm -rf "$out"/{files,images,pushed.txt,subjects.txt}
mkdir -p "$out/files"
notes >"$out/notes.md"
[[ -s $out/notes.md ]] || die "the section of version $version in CHANGELOG.md is empty" "write there what users will notice"

.ci/release/binaries.sh
step "Make the images" .ci/release/images.sh
step "Make the charts, install.yaml and the bundle" .ci/release/chart.sh
step "Make the archives and the manifest for krew" .ci/release/archives.sh
step "Write the bill of materials" .ci/release/sbom.sh
(cd "$out/files" && sha256sum -- * >../SHA256SUMS && mv ../SHA256SUMS .)
say "the release is in $out:"
(cd "$out" && ls -l files)
