#!/usr/bin/env bash
# Makes the release "before", from which e2e/tests/serial/before.rs upgrades: the images, the chart and the resource
# definition of the commit that the file `commit` names, made by the scripts of that commit. They stay in the cache.
#
#   make.sh        makes what is missing, loads the images into the cluster of the tests, and writes the values for it
#   make.sh build  makes what is missing
#
# A later commit becomes the fixture by its full id in that file. Remove the fields that it has from new.yaml then.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../checks/lib.sh"
source "$repo/e2e/checks/test-cluster.sh"

programs=(operator app worker)

# before_images <folder>: prints the names of the images of the release in it.
before_images() {
  local program
  for program in "${programs[@]}"; do printf '%s/%s:%s\n' "$before_names" "$program" "$(<"$1/version")"; done
}

# copy_source <folder>
copy_source() {
  git -C "$repo" archive --format tar "$before_commit" | tar --extract --directory "$1"
  # The names of its images would be those of this checkout.
  sed -i "s|^local_images=.*|local_images=$before_names|" "$1/e2e/cluster/lib.sh"
  grep -qx "local_images=$before_names" "$1/e2e/cluster/lib.sh" \
    || die "e2e/cluster/lib.sh of commit $before_commit does not set local_images" "correct copy_source in e2e/before/make.sh"
}

# Builds in folders of its own, because the output of this checkout has other crates of the same names.
build_images() {
  (
    export SHORTENER_CACHE=$part/cache CARGO_TARGET_DIR=$part/target SHORTENER_COMPILER=host
    unset PROFILE
    "$part/source/e2e/images/build.sh" product
  )
}

make_release() {
  git -C "$repo" cat-file -e "$before_commit^{commit}" 2>/dev/null \
    || die "this checkout has no commit $before_commit, from which the tests upgrade" "fetch it: git fetch --unshallow (for actions/checkout: fetch-depth: 0)"
  rm -rf "${before%/*}"
  mkdir -p "$part/source"
  copy_source "$part/source"
  cp -r "$part/source/charts/shortener-operator" "$part/chart"
  cp "$part/source/crds/shortenerstack.yaml" "$part/definition.yaml"
  sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' "$part/source/Cargo.toml" >"$part/version"
  step "Build the images of ${before_commit:0:12} (10 minutes, the first time only)" build_images
  # The engine may lose the images.
  before_images "$part" | xargs docker save --output "$part/images.tar"
  rm -rf "$part/source" "$part/cache" "$part/target" "$before"
  mv "$part" "$before"
}

load_images() {
  before_images "$before" | xargs docker image inspect >/dev/null 2>&1 || docker load --quiet --input "$before/images.tar" >/dev/null
}

# The values of its chart: its own images, and for the stores those of the tests. It may lack a store that this checkout has.
write_values() {
  local line name
  {
    # The definition has a chart of its own now, which going back must not touch.
    printf 'crds: {enabled: false}\nimage: {repository: %s/operator}\nimages:\n' "$before_names"
    printf '  %s: %s\n' app "$before_names/app:$(<"$before/version")" worker "$before_names/worker:$(<"$before/version")"
    sed -n '/^images:/,$p' "$cache/clusters/$CLUSTER_NAME/values.yaml" | grep '^  ' | while IFS= read -r line; do
      name=${line%%:*}
      if [[ $name == '  app' || $name == '  worker' ]]; then continue; fi
      if grep -q "^$name:" "$before/chart/values.yaml"; then printf '%s\n' "$line"; fi
    done
  } >"$before_values"
}

part=$before.part
if [[ ! -d $before ]]; then make_release; fi
load_images
case "${1:-}" in
  build) ;;
  '')
    before_images "$before" | xargs "$cluster_dir/load.sh"
    write_values
    ;;
  *) die "unknown argument: $1" "run it as: e2e/before/make.sh [build]" ;;
esac
say "the release before is commit $before_commit, in $before"
