#!/usr/bin/env bash
# The project's own images: static binaries, compiled by this machine's cargo or in a
# container. Sourced by build.sh.
# shellcheck disable=SC2154 # cache, repo, version and images_dir come from cluster/lib.sh and build.sh
set -euo pipefail

# The profile is that of the tests, so that every dependency is compiled once.
profile=${PROFILE:-quick}

operator_image=$local_images/operator:$version
app_image=$local_images/app:$version
worker_image=$local_images/worker:$version
echo_image=$local_images/e2e-echo:$version
sink_image=$local_images/otlp-sink:$version

product_images() {
  printf '%s\n' "$operator_image" "$app_image" "$worker_image" "$echo_image" "$sink_image"
}

# It always compiles the whole workspace: a part of it would have other features in the common crates, and the tests
# would compile them again. .cargo/config.toml sets static linking; flags in the environment would replace it.
compile_here() {
  claim_target
  cd "$repo"
  cargo build --locked --profile "$profile" --workspace --bins
}

# compile_in_container <folder>: compiles like compile_here, by the Dockerfile, and puts the programs and the bundle
# of certificate authorities into the folder.
compile_in_container() {
  local folder=$1 image=$local_images/programs:$version container
  docker_build --tag "$image" --label "$key_label=programs" --build-arg "RUST=$(builder_image)" \
    --build-arg "PROFILE=$profile" --file "$images_dir/programs/Dockerfile" "$repo"
  # The image has only files, so none of its programs runs; but the engine requires a command.
  container=$(docker create "$image" none)
  docker cp "$container:/programs/." "$folder"
  docker rm "$container" >/dev/null
}

# Puts all files for the images into $binaries.
compile() {
  if compiles_here; then
    binaries=$CARGO_TARGET_DIR/$(host_triple)/$profile
    bundle=$(ca_bundle)
    links_statically || die "the static C library (libc.a) is missing, so the programs cannot be linked" \
      "install it (Debian: libc6-dev, Fedora: glibc-static), or set SHORTENER_COMPILER=docker to compile in a container"
    step "Compile the operator, the app and the worker (profile $profile)" compile_here
  else
    binaries=$(empty_context programs)
    bundle=$binaries/ca-certificates.crt
    pull "$(builder_image)"
    remedy="check that containers reach the crate registry, or set SHORTENER_COMPILER=host to compile with this machine's cargo" \
      step "Compile the operator, the app and the worker in a container (profile $profile; 10 minutes the first time)" \
      compile_in_container "$binaries"
  fi
}

ca_bundle() {
  local bundle
  for bundle in /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt /etc/ssl/cert.pem; do
    if [[ -s $bundle ]]; then
      printf '%s\n' "$bundle"
      return
    fi
  done
  die "this machine has no bundle of certificate authorities" "install the package ca-certificates"
}

# ensure_product_image <image> <binary> <Dockerfile> [another binary]...
ensure_product_image() {
  local image=$1 binary=$2 dockerfile=$3 context key name
  shift 3
  context=$(empty_context "$binary")
  for name in "$binary" "$@"; do cp "$binaries/$name" "$context/$name"; done
  cp "$bundle" "$context/ca-certificates.crt"
  cp "$dockerfile" "$context/Dockerfile"
  key=$(content_key "$context")
  if ! has_image "$image" "$key"; then
    step "Build the image $image" make_image "$image" "$key" "$context"
    # The image has no loader, so a binary that is not static cannot start.
    remedy="unset RUSTFLAGS and build again: the image has no loader, so the binary must be linked statically" step "Start $image" \
      docker run --rm --read-only --network none "$image" --help
  fi
}

build_product() {
  compile
  ensure_product_image "$operator_image" operator "$repo/operator/Dockerfile"
  ensure_product_image "$app_image" app "$repo/workloads/app/Dockerfile"
  ensure_product_image "$worker_image" worker "$repo/workloads/worker/Dockerfile"
  ensure_product_image "$echo_image" echo "$images_dir/echo/Dockerfile" load
  ensure_product_image "$sink_image" otlp-sink "$images_dir/otlp-sink/Dockerfile"
}
