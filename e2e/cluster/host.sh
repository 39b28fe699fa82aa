# shellcheck shell=bash
# Facts about this machine, read in ways that work on both Linux and macOS. Sourced by lib.sh.
# shellcheck disable=SC2034 # sha256 is used by those who source lib.sh

# The command that prints SHA-256 sums: older versions of macOS have only shasum.
if command -v sha256sum >/dev/null; then sha256=(sha256sum); else sha256=(shasum -a 256); fi

# Prints the platform as in the names of releases: linux or darwin, and amd64 or arm64.
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

# Prints the GiB of memory that containers may use, as the engine reports it, because Docker Desktop and WSL give it
# only a part of the machine's; without an engine, that of the machine. Prints nothing if both are unknown.
memory_gib() {
  local bytes
  if bytes=$(docker info --format '{{.MemTotal}}' 2>/dev/null) && ((${bytes:-0} > 0)); then
    # Firmware and kernel reserve some: a machine of 6 GiB shows a little less.
    printf '%s\n' $(((bytes + 536870912) / 1073741824))
  elif [[ -r /proc/meminfo ]]; then
    awk '/^MemTotal:/ { print int($2 / 1048576 + 0.5) }' /proc/meminfo
  fi
}

# port_in_use <port>
port_in_use() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# free_gib command...: prints the free GiB in the output of the given `df` command, such as free_gib df -Pk /var.
free_gib() { "$@" | awk 'NR == 2 { print int($4 / 1048576) }'; }
