# shellcheck shell=bash
# Facts of this machine, asked in ways that Linux and macOS both understand. Sourced by lib.sh.
# shellcheck disable=SC2034,SC2154 # sha256 is used by those who source lib.sh, which sets cache

# The command that prints SHA-256 sums: older versions of macOS have only the second.
if command -v sha256sum >/dev/null; then sha256=(sha256sum); else sha256=(shasum -a 256); fi

# The platform as release files are named: linux or darwin, and amd64 or arm64.
host_platform() {
  local system machine
  system=$(uname -s | tr '[:upper:]' '[:lower:]')
  machine=$(uname -m)
  case $machine in
    x86_64) machine=amd64 ;;
    aarch64) machine=arm64 ;;
  esac
  printf '%s-%s\n' "$system" "$machine"
}

engine_answers() { docker info >/dev/null 2>&1; }

# GiB of memory that containers may use: what the engine says, since Docker Desktop and WSL give it only a part of the machine's;
# without an engine the machine's own. Prints nothing where neither can be known.
memory_gib() {
  local bytes
  if bytes=$(docker info --format '{{.MemTotal}}' 2>/dev/null) && ((${bytes:-0} > 0)); then
    # Firmware and kernel keep some: a machine of 6 GiB shows a little less.
    printf '%s\n' $(((bytes + 536870912) / 1073741824))
  elif [[ -r /proc/meminfo ]]; then
    awk '/^MemTotal:/ { print int($2 / 1048576 + 0.5) }' /proc/meminfo
  fi
}

# free_gib command...: GiB free where `df` looks, which is run by that command, if any: free_gib df -Pk /var.
free_gib() { "$@" | awk 'NR == 2 { print int($4 / 1048576) }'; }

# version_at_least <version> <wanted>: compares major and minor; a leading v and what follows the minor do not count.
version_at_least() {
  awk -v have="${1#v}" -v want="${2#v}" 'BEGIN {
    split(have, h, "."); split(want, w, ".")
    exit !(h[1] + 0 > w[1] + 0 || (h[1] + 0 == w[1] + 0 && h[2] + 0 >= w[2] + 0))
  }'
}

# without_cache_bin: the PATH without our own folder, where a link must not be taken for a program of the person's.
without_cache_bin() { printf '%s' "$PATH" | tr : '\n' | grep -vxF "$cache/bin" | paste -s -d : -; }

# on_path <program>: where the person's own one is.
on_path() { PATH=$(without_cache_bin) command -v "$1"; }
