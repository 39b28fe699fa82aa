# shellcheck shell=bash
# Functions that the checks share, in addition to the local cluster's library: the operator of this checkout.
# Sourced; changes to the root of the checkout.

source "$(dirname "${BASH_SOURCE[0]}")/../cluster/lib.sh"
# The tests compile the workspace on this machine anyway, so the images use the same programs.
export SHORTENER_COMPILER=${SHORTENER_COMPILER:-host}
cd "$repo" || exit 1

# Runs the operator of this checkout. It always builds the whole workspace: a part of it would have other features
# in the common crates and would compile them again.
operator() {
  cargo build --quiet --profile quick --workspace --bins
  "$CARGO_TARGET_DIR/$(host_triple)/quick/operator" "$@"
}

# Sets chromium to the browser of the checks, and installs it. Without a font there would be no text in its pictures.
find_chromium() {
  chromium=${CHROMIUM:-chromium-headless-shell}
  if [[ -z ${CHROMIUM:-} ]]; then
    remedy="install chromium-headless-shell, or set CHROMIUM to the path of a Chromium" \
      step "Install Chromium" apt_install chromium-headless-shell fonts-dejavu-core
  fi
  command -v "$chromium" >/dev/null || die "CHROMIUM names no program: $chromium" "set it to the path of a Chromium"
  command -v python3 >/dev/null || die "python3 is not on this machine" "install Python 3.10 or later"
}
