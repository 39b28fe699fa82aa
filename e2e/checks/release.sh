#!/usr/bin/env bash
# Rehearses a release: runs the scripts of .ci/release with the binaries of the tests (PROFILE=quick) and a
# registry on loopback, and fetches everything that users would get from there. Signatures need the identity of a
# workflow and are not part of it.
#
#   e2e/checks/release.sh        for this machine's architecture
#   e2e/checks/release.sh all    for every architecture of a release: minutes of compiling more, and emulation
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source "$repo/e2e/checks/registry.sh"

work=$(mktemp -d)
trap 'stop_registry; rm -rf "$work"' EXIT
export PROFILE=quick RELEASE_OUT=$work/out
files=$RELEASE_OUT/files
case ${1:-} in
  '')
    IMAGE_TARGETS=$(host_triple)
    architectures=("$(host_platform | cut -d - -f 2)")
    ;;
  all)
    IMAGE_TARGETS=
    architectures=(amd64 arm64)
    ;;
  *) die "unknown argument: $1" "run it as: e2e/checks/release.sh [all]" ;;
esac
export IMAGE_TARGETS
expected=$(sed -n 's/^IMAGE_REPOSITORY = "\(.*\)"/\1/p' .cargo/config.toml)

# runs <architecture> <file> arguments...: runs the file on this machine, or emulated.
runs() {
  local machine=$1
  shift
  case $machine in amd64) machine=x86_64 ;; arm64) machine=aarch64 ;; esac
  if [[ $(uname -m) == "$machine" ]]; then "$@"; else "qemu-$machine" "$@"; fi
}

# refuses <part of the message> command...
refuses() {
  local wanted=$1 message
  shift
  if message=$("$@" 2>&1); then die "this succeeded instead of failing with '$wanted': $*" "see the script"; fi
  [[ $message == *"$wanted"* ]] || die "the error of $* lacks '$wanted': $message" "see the script"
}

refuses_wrong_tags() {
  refuses "is not the version $version" env PROFILE=release .ci/release/release.sh v9.9.9
  refuses "PROFILE=quick is for rehearsals" .ci/release/release.sh "v$version"
  refuses "IMAGE_TARGETS=$(host_triple) is for rehearsals" \
    env PROFILE=release IMAGE_TARGETS="$(host_triple)" .ci/release/release.sh "v$version"
}

# answers_version <architecture> <file> <program>
answers_version() {
  [[ $(runs "$1" "$2" --version) == *"$version" ]] || die "--version of $3 for $1 does not print $version" "run it by hand: $2 --version"
}

# image_is_right <program> <Dockerfile>: checks the image in the registry, on each architecture.
image_is_right() {
  local program=$1 image=$PUSH_TO/$1:$version architecture config folder=$work/$1
  [[ $(crane manifest "$image" | jq --raw-output '[.manifests[].platform | .os + "/" + .architecture] | join(" ")') \
    == "${architectures[*]/#/linux/}" ]] || die "$image is not for exactly ${architectures[*]/#/linux/}" "see crane manifest $image and .ci/release/images.sh"
  for architecture in "${architectures[@]}"; do
    config=$(crane config --platform "linux/$architecture" "$image")
    jq --exit-status --arg user "$(sed -n 's/^USER //p' "$2")" --argjson entrypoint "$(sed -n 's/^ENTRYPOINT //p' "$2")" \
      --arg architecture "$architecture" --arg version "$version" --arg revision "$(git rev-parse HEAD)" '
        .architecture == $architecture and .config.User == $user and $user == "65532:65532"
        and .config.Entrypoint == $entrypoint
        and .config.Labels["org.opencontainers.image.version"] == $version
        and .config.Labels["org.opencontainers.image.revision"] == $revision
        and ([.config.Labels | keys[] | ltrimstr("org.opencontainers.image.")]
          == ["created", "description", "licenses", "revision", "source", "title", "version"])
        and all(.config.Labels[]; . != "")' <<<"$config" >/dev/null \
      || die "the configuration of $image for $architecture is not that of $2: $config" "see .ci/release/images.sh"
    rm -rf "$folder"
    mkdir -p "$folder"
    crane export --platform "linux/$architecture" "$image" - | tar --extract --directory "$folder"
    [[ $(find "$folder" -type f -printf '%P\n' | sort) == $(printf '%s\n' "$program" etc/ssl/certs/ca-certificates.crt | sort) ]] \
      || die "$image has other files than its program and the certificates" "see crane export $image and $2"
    answers_version "$architecture" "$folder/$program" "$program"
  done
}

# Builds again in other folders and at another time; the bytes must be the same.
images_are_reproducible() {
  local program
  mkdir -p "$work/again"
  cp -r "$RELEASE_OUT/bin" "$work/again/bin"
  (umask 077 && RELEASE_OUT=$work/again .ci/release/images.sh)
  for program in operator app worker; do
    diff --recursive "$RELEASE_OUT/images/$program" "$work/again/images/$program" \
      || die "a second build from the same binaries made another image of $program" "find what depends on the time or the machine in .ci/release/images.sh"
  done
}

# starts_our_operator <file of manifests>
starts_our_operator() {
  grep -qE "image: \"?$expected/operator:$version\"?\$" "$1" || die "$1 does not name the image $expected/operator:$version" "see .ci/release/chart.sh"
}

charts_are_right() {
  local chart package
  mkdir -p "$work/pulled"
  for chart in shortener-definition shortener-operator; do
    package=$chart-$version.tgz
    helm pull "oci://$PUSH_TO/charts/$chart" --version "$version" --plain-http --destination "$work/pulled"
    cmp "$work/pulled/$package" "$files/$package" || die "the chart in the registry differs from $package of the release" "see .ci/release/push.sh"
  done
  helm template test "$work/pulled/shortener-operator-$version.tgz" >"$work/pulled/rendered.yaml"
  starts_our_operator "$work/pulled/rendered.yaml"
  starts_our_operator "$files/install.yaml"
  [[ $(grep -c '^kind: CustomResourceDefinition$' "$files/install.yaml") == $(find crds -name '*.yaml' | wc -l) ]] || die "install.yaml lacks a resource definition" "see charts/dist.sh"
}

# krew compares the archive with the checksum in its manifest.
catalogs_get_what_they_accept() {
  local architecture root
  mkdir -p "$work/bundle"
  tar --extract --directory "$work/bundle" --file "$files/shortener-operator-$version-bundle.tar.gz"
  starts_our_operator "$work/bundle/manifests/shortener-operator.v$version.clusterserviceversion.yaml"
  e2e/checks/catalogs.sh "$work/bundle" "$files/shortener.yaml"
  for architecture in "${architectures[@]}"; do
    root=$work/krew-$architecture
    KREW_ROOT=$root KREW_OS=linux KREW_ARCH=$architecture KREW_NO_UPGRADE_CHECK=1 "$(built "$cluster_dir/tools/krew")/krew" install \
      --manifest "$files/shortener.yaml" --archive "$files/shortener-operator-$version-linux-$architecture.tar.gz"
    answers_version "$architecture" "$root/bin/kubectl-shortener" "the plugin of kubectl that krew installs"
  done
}

files_are_right() {
  local listed
  listed=$(cd "$files" && sha256sum --check --strict --quiet SHA256SUMS && cut -c 67- SHA256SUMS | sort | xargs)
  [[ $listed == "$(cd "$files" && find . -type f ! -name SHA256SUMS -printf '%P\n' | sort | xargs)" ]] \
    || die "SHA256SUMS does not name every file of the release" "see .ci/release/release.sh"
  for architecture in "${architectures[@]}"; do
    tar --extract --directory "$work" --file "$files/shortener-operator-$version-linux-$architecture.tar.gz"
    answers_version "$architecture" "$work/shortener-operator" "the archive's operator"
  done
  jq --exit-status --arg version "$version" '
    .bomFormat == "CycloneDX" and ([.components[]["bom-ref"]] | length > 100 and length == (unique | length))
    and any(.components[]; .name == "shortener-operator" and .version == $version and .type == "application")
    and all(.components[]; .version != null)
    and ([.dependencies[] | .ref, .dependsOn[]] - [.components[]["bom-ref"]] | unique == ["shortener-stack"])' \
    "$files/shortener-stack-$version.cdx.json" >/dev/null || die "the bill of materials is incomplete or inconsistent" "see .ci/release/sbom.jq"
  [[ -s $RELEASE_OUT/notes.md ]] || die "notes.md of the release is empty" "see CHANGELOG.md"
}

# A published tag must never change.
refuses_replacement() {
  printf x >>"$RELEASE_OUT/bin/x86_64-unknown-linux-gnu/worker"
  .ci/release/images.sh
  refuses "is published already" .ci/release/push.sh
}

if [[ ${1:-} == all ]] && ! command -v qemu-aarch64 >/dev/null; then step "Install qemu-user" apt_install qemu-user; fi
refuses_wrong_tags
.ci/release/release.sh
start_registry "$work/registry"
export PUSH_TO=$registry_address/shortenerstack
.ci/release/push.sh
image_is_right operator operator/Dockerfile
image_is_right app workloads/app/Dockerfile
image_is_right worker workloads/worker/Dockerfile
images_are_reproducible
charts_are_right
files_are_right
catalogs_get_what_they_accept
refuses_replacement
say "the release $version for ${architectures[*]} is complete, except for its signatures"
