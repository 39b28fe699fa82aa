# shellcheck shell=bash
# Functions and variables that the scripts of a release share. Sourced; changes to the root of the checkout.
# shellcheck disable=SC2034 # the variables are read by the scripts that source this file
#
# Variables of the caller:
#   PROFILE            the Cargo profile, release by default; quick makes a rehearsal with the binaries of the tests
#   RELEASE_OUT        the folder for all output, dist/release by default
#   IMAGE_REPOSITORY   the registry that users pull from; the operator is compiled with it, and the chart names it
#   PUSH_TO            the registry that push.sh pushes to, IMAGE_REPOSITORY by default; one on loopback for a rehearsal
#   IMAGE_TARGETS      the targets that each image is made for, all by default; fewer only without a tag

source "$(dirname "${BASH_SOURCE[0]}")/../../e2e/checks/lib.sh"

profile=${PROFILE:-release}
out=${RELEASE_OUT:-$repo/dist/release}
image_repository=${IMAGE_REPOSITORY:-$(sed -n 's/^IMAGE_REPOSITORY = "\(.*\)"/\1/p' .cargo/config.toml)}
push_to=${PUSH_TO:-$image_repository}
source_url=$(sed -n '/^\[workspace.package\]/,/^\[/s/^repository = "\(.*\)"/\1/p' Cargo.toml)
if [[ -n ${GITHUB_REPOSITORY:-} ]]; then source_url=${GITHUB_SERVER_URL:-https://github.com}/$GITHUB_REPOSITORY; fi

# All times in the output are that of the commit, so the same commit gives the same bytes.
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}

# The programs that have an image.
programs=(operator app worker)
# The charts, in the order in which they are installed.
charts=(shortener-definition shortener-operator)
# The programs that users run on their own machines.
tools=(operator kubectl-shortener)
# The targets that each image is made for.
read -ra image_targets <<<"${IMAGE_TARGETS:-x86_64-unknown-linux-gnu aarch64-unknown-linux-gnu}"

# package_of <chart>
package_of() { printf '%s/files/%s-%s.tgz\n' "$out" "$1" "$version"; }

# architecture_of <target>: its name in images and archives.
architecture_of() {
  case $1 in
    x86_64-*) echo amd64 ;;
    aarch64-*) echo arm64 ;;
    *) die "no release is made for $1" "name a target that begins with x86_64- or aarch64-" ;;
  esac
}

# system_of <target>
system_of() {
  case $1 in
    *-unknown-linux-gnu) echo linux ;;
    *-apple-darwin) echo darwin ;;
    *) die "no release is made for $1" "name a target that ends with -unknown-linux-gnu or -apple-darwin" ;;
  esac
}

# pack <archive> <folder>: packs the folder as a tar archive that depends only on names, contents and executable bits.
pack() {
  local archive=$1 folder=$2
  (
    cd "$folder"
    tar --create --format ustar --sort name --owner 0 --group 0 --numeric-owner --mode 'u=rwX,go=rX' \
      --mtime "@$SOURCE_DATE_EPOCH" -- *
  ) >"$archive"
}

# krew_manifest: reads the checksums of archives, prints krew's manifest of kubectl's plugin.
krew_manifest() {
  gojq --null-input --raw-input --yaml-output --from-file "$repo/.ci/release/krew.jq" --arg version "$version" --arg source "$source_url"
}

# sha256 <file>: prints its digest in hexadecimal.
sha256() { sha256sum "$1" | cut -d ' ' -f 1; }
