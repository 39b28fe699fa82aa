#!/usr/bin/env bash
# Checks that each stand-in has the version in its name: major and minor of its program are those of the image's tag. The
# unit tests and the tests of the cluster run the stand-ins and show the rest.
# shellcheck source=../cluster/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../cluster/lib.sh"
# shellcheck source=../images/names.sh
. "$repo/e2e/images/names.sh"

# Prints major and minor of the first version in the input.
major_minor() { grep -oE '[0-9]+\.[0-9]+' | sed -n 1p; }

# check <image> <program> arguments...: runs a program of the image that prints the version.
check() {
  local image=$1 program=$2 printed
  printed=$(docker run --rm --entrypoint "$program" "$image" "${@:3}" 2>&1) || true
  [[ $(major_minor <<<"$printed") == $(major_minor <<<"${image##*:}") ]] \
    || die "$program of $image prints another version than that of the image's name: $printed" \
      "see the suites in e2e/closed/debian-services.sh and the modules in e2e/closed/modules"
}

check "$postgres_image" postgres --version
check "$postgres_17_image" postgres --version
check "$nginx_image" nginx -v
check "$valkey_image" valkey-server --version
# shellcheck disable=SC2016 # a field of the package
check "$rabbitmq_image" dpkg-query --show --showformat '${Version}' rabbitmq-server
check "$prometheus_image" prometheus --version
check "$collector_image" /otelcol --version
say "the stand-ins have the versions of their names"
