#!/usr/bin/env bash
# Argo CD's health check of a stack, run over sample statuses by the Lua interpreter that Argo CD uses.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source "$(dirname "${BASH_SOURCE[0]}")/chart-tools.sh"
source "$(dirname "${BASH_SOURCE[0]}")/examples-lib.sh"

key=resource.customizations.health.shortener.dev_ShortenerStack
interpreter=$examples_folder/lua
work=${work:-$(mktemp -d)}
trap 'rm -rf "$work"' EXIT

if [[ ! -d $(built "$interpreter") ]]; then step "Build a Lua interpreter from its Go module" gobuild "$interpreter"; fi
script=$(as_json examples/argo-cd/health.yaml | jq -er --arg key "$key" '.data[$key]') \
  || die "examples/argo-cd/health.yaml has no entry $key"
jq -r --arg script "$script" -f "$examples_folder/health.jq" "$examples_folder/health.json" >"$work/health.lua"
"$(built "$interpreter")/glua" "$work/health.lua" || die "Argo CD would show a wrong health" "correct examples/argo-cd/health.yaml"
