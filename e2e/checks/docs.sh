#!/usr/bin/env bash
# Compares the documentation with the files that it mentions: the README's sample, relative
# links, and the version everywhere. Refuses phrases that are no plain English.
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

# Prints the anchors of the headings of a page, as GitHub makes them.
anchors() { sed -n 's/^##* //p' "$1" | tr '[:upper:] ' '[:lower:]-' | tr -cd '[:alnum:]_\n-'; }

# Every relative link must lead to a file, and to a heading of it.
while IFS=: read -r page link; do
  target=$(dirname "$page")/${link%%#*}
  if [[ $link == '#'* ]]; then target=$page; fi
  if [[ ! -e $target ]]; then
    complain "$page links to $link, which does not exist"
  elif [[ $link == '#'* || $link == *.md#* ]]; then
    grep -qxF -e "${link#*#}" <<<"$(anchors "$target")" || complain "$page links to $link, and $target has no such heading"
  fi
done < <(
  git ls-files --cached --others --exclude-standard -- '*.md' \
    | xargs -r grep -HoE '\]\([^): ]+\)' | sed 's/\](\(.*\))$/\1/'
)

# Phrases that readers stumble over, each with the words to write instead. Generated pages have their text from the code.
texts=$(git ls-files --cached --others --exclude-standard -- README.md CONTRIBUTING.md 'docs/*.md' \
  | xargs -r grep -L '<!-- GENERATED' | while IFS= read -r page; do printf '%s: %s\n' "$page" "$(tr -s '\n ' ' ' <"$page")"; done)
while IFS='=' read -r phrase instead; do
  while IFS= read -r text; do
    complain "${text%%:*}: \"$(grep -oiE ".{0,30}$phrase.{0,20}" <<<"$text" | sed -n 1p)\" is no plain English: write $instead"
  done < <(grep -iE "$phrase" <<<"$texts" || true)
done <<'PHRASES'
\blet go\b=apply, start or release
\bheld back\b=pending or unchanged
\bgoes? on\b=continues
\bas ever\b=as before, or leave it out
[.|] absent:="unset", or "disabled if unset"
\bis none\b=is not, or has no
\bwhoever\b=a user who, a client that
\ba person\b=you, on-call or a user
\bof (its|their) own\b=its own, dedicated or separate
\bof yours\b=your
\bthe way back\b=rollback or downgrade
\bproves? nothing\b=is ignored
\b(says|tells|shows|decides|knows|sees) if\b=reports whether
PHRASES

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
printf 'README, links, wording and versions agree\n'
