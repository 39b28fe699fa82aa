#!/usr/bin/env bash
# collect.sh <folder>: copies the programs of some of this system's packages there, and the libraries that they load.
# Runs in a container of the node's root file system.
set -euo pipefail

target=$1
packages=(bash conntrack coreutils ipset iproute2 iptables kmod sed)

# The packages' own names for their files may lead through links such as /bin, so the folder is resolved. The file is not,
# because many programs are links that mean something by their name.
program_files() {
  local file
  dpkg --listfiles "${packages[@]}" | grep -E '^(/usr)?/(s?bin|lib)/' | while IFS= read -r file; do
    if [[ ! -d $file ]]; then printf '%s/%s\n' "$(realpath "${file%/*}")" "${file##*/}"; fi
  done
}

# Prints the libraries of the files on standard input under the names by which the loader looks for them, and the files
# that these names lead to. ldd also fails if one of the files is a script.
libraries() {
  local library
  { xargs ldd 2>/dev/null || true; } | sed -nE 's/.*[[:space:]](\/[^ ]+) \(0x.*/\1/p' | sort -u | while IFS= read -r library; do
    printf '%s/%s\n' "$(realpath "${library%/*}")" "${library##*/}"
    realpath "$library"
  done
}

mkdir -p "$target"/{etc,run,tmp,var}
chmod 1777 "$target/tmp"
ln -s /run "$target/var/run"
program_files | sort -u >/program-files
{
  cat /program-files
  libraries </program-files
  # ipset and iptables read protocols and services by name.
  dpkg --listfiles netbase | grep '^/etc/.'
  # No package lists the names that lead to the chosen variant of iptables.
  find /usr/sbin /etc/alternatives -name '*tables*'
  find /bin /lib /lib64 /sbin -maxdepth 0 -type l
} | sed 's|^/||' | sort -u | tar --create --directory / --files-from - | tar --extract --directory "$target"
