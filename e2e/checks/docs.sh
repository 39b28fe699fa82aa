#!/usr/bin/env bash
# Compares the documentation with the files that it mentions: the README's sample, relative
# links, and the version everywhere.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

sample=e2e/samples/demo.yaml
[[ -f $sample ]] || die "$sample is missing" "restore it: git checkout $sample"
failed=0
complain() {
  printf 'error: %s\n' "$*" >&2
  failed=1
}

# The README must show the file that `make up` and the tests apply.
shown=$(awk '/^```yaml$/ && !done {inside = 1; next} /^```$/ {if (inside) done = 1; inside = 0} inside' README.md)
diff <(printf '%s\n' "$shown") "$sample" || complain "the first YAML block of README.md (<) differs from $sample (>)"
((($(wc -l <"$sample")) <= 20)) || complain "$sample is longer than 20 lines"

# Every relative link must lead to a file.
while IFS=: read -r page link; do
  target=$(dirname "$page")/${link%%#*}
  [[ -e $target ]] || complain "$page links to $link, which does not exist"
done < <(
  git ls-files --cached --others --exclude-standard -- '*.md' \
    | xargs -r grep -HoE '\]\([^)#: ][^): ]*\)' | sed 's/\](\(.*\))$/\1/'
)

[[ $version =~ ^[0-9]+\.[0-9]+\.[0-9]+ ]] || complain "Cargo.toml has no workspace version"
for field in version appVersion; do
  grep -qx "$field: $version" charts/shortener-operator/Chart.yaml \
    || complain "$field in Chart.yaml is not $version, the version in Cargo.toml"
done
grep -q "^## $version" CHANGELOG.md || grep -q '^## Unreleased' CHANGELOG.md \
  || complain "CHANGELOG.md has neither a section $version nor a section Unreleased"

# The names of our images, charts and actions, which users copy, must have this version.
while IFS= read -r found; do
  [[ $found =~ [@:]v?${version//./\\.}$ ]] || complain "this name does not have the version $version: $found"
done < <(git ls-files --cached --others --exclude-standard -- '*.md' 'examples/*' \
  | grep -v '^CHANGELOG.md$' | xargs -r grep -HoE 'shortenerstack/[a-z/-]+[@:]v?[0-9]+\.[0-9]+\.[0-9]+')

((failed == 0)) || exit 1
printf 'README, links and versions agree\n'
