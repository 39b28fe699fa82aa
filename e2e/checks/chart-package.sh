#!/usr/bin/env bash
# Checks the package of the chart and its texts: it contains the resource definition, its alert fires in the right
# cases, its pages and annotations match their sources, and the commands in its notes are complete.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source "$(dirname "${BASH_SOURCE[0]}")/chart-tools.sh"
source e2e/images/names.sh
source "$(dirname "${BASH_SOURCE[0]}")/promtool.sh"

# A tool that reads the folder, such as Flux, omits symbolic links, so the package must contain copies.
package_is_whole() {
  local link archive
  link=$(find "$chart" -type l)
  [[ -z $link ]] || die "$link is a symbolic link" "make it a file: GitOps tools such as Flux omit symbolic links"
  helm package "$chart" --destination "$work" >/dev/null
  archive=$work/shortener-operator-$version.tgz
  helm template test "$archive" --namespace shortener-system >"$work/from-package.yaml"
  kinds from-package | grep -x CustomResourceDefinition >/dev/null || die "the packaged chart renders no resource definition" "see files/ and templates/crds.yaml of the chart"
  diff "$work/folder.yaml" "$work/from-package.yaml" || die "the packaged chart (>) renders other objects than its folder (<)" "see .helmignore and files/ of the chart"
  tar -xOf "$archive" shortener-operator/files/shortenerstack.yaml | cmp - crds/shortenerstack.yaml \
    || die "files/shortenerstack.yaml in the packaged chart differs from crds/shortenerstack.yaml" "run \`make crds\`"
}

alert_is_raised() {
  helm template test "$chart" --namespace shortener-system --set prometheusRule.enabled=true \
    --set prometheusRule.runbookBaseUrl=https://example.com/runbooks --show-only templates/prometheusrule.yaml \
    | sed -n '/^spec:$/,$ s/^  //p' >"$work/rules.yaml"
  hold_alerts "$work" e2e/alerts/chart
  # A cluster without the Prometheus operator would refuse these kinds.
  ! kinds folder | grep -x 'ServiceMonitor\|PrometheusRule' >/dev/null || die "the default rendering has a ServiceMonitor or a PrometheusRule" "render them only when their values enable them"
}

# annotation <name>: prints the text of an annotation for Artifact Hub.
annotation() {
  awk -v name="  artifacthub.io/$1:" 'index($0, name) == 1 {inside = 1; next} inside && !/^    / {exit} inside {print substr($0, 5)}' "$chart/Chart.yaml"
}

# Checks the facts that Chart.yaml, values.yaml and the templates repeat from other files.
copies_are_true() {
  local program line value
  holds folder "image: \"$(released operator)\""
  holds folder "image: \"$(default_image GATEWAY_IMAGE)\""
  diff <(annotation images) <(for program in operator app worker; do printf -- '- name: %s\n  image: %s\n' "$program" "$(released "$program")"; done) \
    || die "artifacthub.io/images in Chart.yaml (<) is not the list of this version's images (>)" "correct the annotation"
  diff <(annotation crdsExamples) <(sed '1s/^/- /; 1!s/^/  /' e2e/samples/demo.yaml) \
    || die "artifacthub.io/crdsExamples in Chart.yaml (<) is not e2e/samples/demo.yaml (>)" "copy the sample into the annotation"
  for line in "  name: $(annotation crds | sed -n 's/^  name: //p')" "    kind: $(annotation crds | sed -n 's/^- kind: //p')" "    name: $(annotation crds | sed -n 's/^  version: //p')"; do
    grep -qxF -- "$line" crds/shortenerstack.yaml || die "artifacthub.io/crds in Chart.yaml contradicts crds/shortenerstack.yaml, which has no line: $line" "correct the annotation"
  done
  # The alerts of a stack use the same address.
  value=$(sed -n 's/^repository = "\(.*\)"$/\1/p' Cargo.toml)
  grep -qx "home: $value" "$chart/Chart.yaml" || die "home in Chart.yaml is not the repository in Cargo.toml, $value" "correct Chart.yaml"
  grep -qx "sources: \[$value\]" "$chart/Chart.yaml" || die "sources in Chart.yaml is not the repository in Cargo.toml, $value" "correct Chart.yaml"
  grep -qx "  runbookBaseUrl: $value/blob/main/docs/runbooks.md" "$chart/values.yaml" || die "prometheusRule.runbookBaseUrl in values.yaml is not the page docs/runbooks.md of the repository in Cargo.toml" "correct values.yaml"
  while read -r value; do
    grep -q "^| \`${value}[\`.]" "$chart/README.md" || die "the chart's README has no row for $value, which values.schema.json accepts" "add $value to values.yaml and run \`make readme\`"
  done < <(jq -r '.properties | keys[], (.images.properties | keys[] | "images." + .)' "$chart/values.schema.json")
  diff "$chart/README.md" <(charts/readme.sh) || die "the chart's README is not up to date" "run \`make readme\`"
}

# Checks that the commands in the notes can be typed as they are: all quotes and brackets are closed.
notes_can_be_typed() {
  local commands problem
  helm install test "$chart" --namespace shortener-system --dry-run=client "$@" | sed '1,/^NOTES:$/d' >"$work/notes"
  commands=$(awk '/<<STACK$/ {here = 1} here || /^(kubectl|helm|curl) / {print} /^STACK$/ {here = 0}' "$work/notes")
  problem=$(bash -n <<<"$commands" 2>&1) || true
  [[ -n $commands && -z $problem ]] || die "the chart's notes have no command, or one that a shell cannot parse: $problem" "see templates/NOTES.txt of the chart"
}

notes_tell_what_was_installed() {
  notes_can_be_typed --set 'watchNamespaces={red,blue}'
  grep -q '^kubectl -n red apply' "$work/notes" || die "the chart's notes do not apply the stack in a watched namespace" "see templates/NOTES.txt of the chart"
  notes_can_be_typed --set crds.enabled=false --set replicaCount=0 --set prometheusRule.enabled=true
  ! grep -q '<<STACK' "$work/notes" || die "the chart's notes apply a stack while crds.enabled is false and replicaCount is 0" "see templates/NOTES.txt of the chart"
  grep -q 'templates/crds.yaml | kubectl apply' "$work/notes" || die "the chart's notes do not show how to apply the resource definition while crds.enabled is false" "see templates/NOTES.txt of the chart"
  grep -q 'ShortenerOperatorDown' "$work/notes" || die "the chart's notes do not say that ShortenerOperatorDown lacks its metrics" "see templates/NOTES.txt of the chart"
  notes_can_be_typed
}

helm template test "$chart" --namespace shortener-system >"$work/folder.yaml"
package_is_whole
alert_is_raised
copies_are_true
notes_tell_what_was_installed
say "the chart's package, alert, pages and notes are correct"
