#!/usr/bin/env bash
# Reads the Ingresses of a stack with Traefik's own provider for ingress-nginx and routes requests by the result, without
# a cluster. It compiles that provider, which takes minutes the first time.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

module=$repo/e2e/checks/traefik
program=$(built "$module" shortener.dev/e2e/traefik)/traefik
if [[ ! -x $program ]]; then
  remedy="check that this machine reaches the Go module proxy (go env GOPROXY)" \
    step "Build Traefik's provider from its Go module" gobuild "$module" shortener.dev/e2e/traefik
fi
golden=operator/core/snapshots
"$program" "$golden"/{ingress,ingress-api}.snap
"$program" "$golden"/{ingress,ingress-api}-tls.snap
