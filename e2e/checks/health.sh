#!/usr/bin/env bash
# Checks the health of sample statuses for Argo CD and Flux: the Lua scripts of examples/argo-cd in the interpreter that
# Argo CD uses, and the expression of examples/flux in the implementation of CEL that Flux uses.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source "$repo/e2e/checks/chart-tools.sh"
source "$repo/e2e/checks/examples-lib.sh"

cases=$examples_folder/health.json
work=${work:-$(mktemp -d)}
trap 'rm -rf "$work"' EXIT

# argo_cd <kind> <file of cases>
argo_cd() {
  local script key=resource.customizations.health.shortener.dev_$1 cases=$2
  go_step "Build a Lua interpreter from its Go module" "$examples_folder/lua"
  script=$(as_json examples/argo-cd/health.yaml | jq -er --arg key "$key" '.data[$key]') \
    || die "examples/argo-cd/health.yaml has no entry $key" "add it"
  jq -r --arg script "$script" -f "$examples_folder/health.jq" "$cases" >"$work/health.lua"
  "$(built "$examples_folder/lua")/glua" "$work/health.lua" \
    || die "the health check for Argo CD gives a wrong answer for the case above" "correct examples/argo-cd/health.yaml"
}

flux() {
  local expression
  go_step "Build a program that evaluates CEL" "$examples_folder/cel" ./expression
  expression=$(as_json examples/flux/kustomizations.yaml | jq -er '.spec.healthCheckExprs[]? | select(.kind == "ShortenerStack").current') \
    || die "examples/flux/kustomizations.yaml has no expression in healthCheckExprs for a ShortenerStack" "add it"
  "$(built "$examples_folder/cel" ./expression)/expression" "$expression" <"$cases" >"$work/answers"
  diff <(jq -r '.[] | "\(.case): \(.ready)"' "$cases") <(jq -r '.[].case' "$cases" | paste -d ' ' <(cat) "$work/answers" | sed 's/ \([^ ]*\)$/: \1/') \
    || die "the expression for Flux gives wrong answers (< expected, > answered)" "correct examples/flux/kustomizations.yaml"
  printf 'the expression for Flux answers %s cases as it should\n' "$(jq length "$cases")"
}

argo_cd ShortenerStack "$cases"
argo_cd ShortLink "$examples_folder/health-shortlink.json"
flux
