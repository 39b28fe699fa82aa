#!/usr/bin/env bash
# Reads the Ingresses of a stack with Traefik's own provider for ingress-nginx and routes requests by the result, without
# a cluster. It compiles that provider, which takes minutes the first time.
#
# `traefik.sh pin` writes the indirect requirements and the sums after a change of traefik/go.mod, and checks nothing.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

module=$repo/e2e/checks/traefik
package=shortener.dev/e2e/traefik
traefik=github.com/traefik/traefik/v3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# reduced command args...: runs the command with a copy of Traefik that lacks the files in the list `omitted`. They
# measure and trace requests, and by their settings they import every provider of Traefik, with the clients of a hundred
# clouds, some of which a module proxy may lack. Go's -overlay cannot hide them: it refuses files of the module cache.
reduced() {
  local source file
  source=$(module_dir "$module" "$traefik")
  mkdir "$work/traefik"
  cp -R --no-preserve=mode "$source"/{go.mod,pkg} "$work/traefik"
  while IFS= read -r file; do
    rm "$work/traefik/$file" || die "Traefik has no file $file" \
      "list in e2e/checks/traefik/omitted the files by which it imports pkg/config/static now"
  done <"$module/omitted"
  find "$work/traefik" -name '*_test.go' -delete # `pin` would look for what they import
  cp "$module"/go.{mod,sum} "$work"
  go mod edit -replace="$traefik=$work/traefik" "$work/go.mod"
  GOFLAGS="$GOFLAGS '-modfile=$work/go.mod'" "$@"
}

pin() {
  cd "$module"
  reduced go mod tidy
  go mod edit -dropreplace="$traefik" "$work/go.mod"
  cp "$work"/go.{mod,sum} .
  go mod download "$traefik" # adds its sum, which its copy does not need
}

case ${1:-} in
  pin) pin ;;
  '')
    program=$(built "$module" "$package")/traefik
    if [[ ! -x $program ]]; then
      remedy="check that this machine reaches the Go module proxy (go env GOPROXY)" \
        step "Build Traefik's provider from its Go module" reduced gobuild "$module" "$package"
    fi
    golden=operator/core/snapshots
    "$program" "$golden"/{ingress,ingress-api}.snap
    "$program" "$golden"/{ingress,ingress-api}-tls.snap
    ;;
  *) die "traefik.sh does not know '$1'" "run it with pin, or with nothing" ;;
esac
