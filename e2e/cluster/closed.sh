# shellcheck shell=bash
# Decides how a cluster is created: with public images (the usual way), or closed, with everything built here.
# Sourced by lib.sh. Also has the functions for Debian's packages, which only a closed machine needs.
# shellcheck disable=SC2154 # cache comes from lib.sh

# True if this machine may not raise resource limits (a container, a small virtual machine): bit 24 of CapBnd.
lacks_sys_resource() {
  local bounding
  [[ -r /proc/self/status ]] || return 1
  bounding=$(sed -n 's/^CapBnd:[[:space:]]*//p' /proc/self/status)
  ((((16#$bounding >> 24) & 1) == 0))
}

# True if engine.sh had to start the engine without that capability, or will have to; the
# node then needs the same setting.
restricted() {
  local runtime
  if runtime=$(docker info --format '{{.DefaultRuntime}}' 2>/dev/null) && [[ -n $runtime ]]; then
    [[ $runtime == without-sys-resource ]]
  else
    lacks_sys_resource
  fi
}

# decide: chooses the way once, for this process and its children, and sets why_closed to the reason. A failed or
# slow pull never changes the choice: a busy registry is no reason to compile Kubernetes.
decide() {
  case "${SHORTENER_CLOSED:-}" in
    yes | no) : "${why_closed:=SHORTENER_CLOSED=$SHORTENER_CLOSED}" ;;
    '')
      if restricted; then
        SHORTENER_CLOSED=yes
        why_closed="the Docker engine here lacks CAP_SYS_RESOURCE, and the public node image does not start without it"
      else
        SHORTENER_CLOSED=no
        why_closed="this is the default; on Debian as root, SHORTENER_CLOSED=yes builds everything instead"
      fi
      ;;
    *) die "SHORTENER_CLOSED is '$SHORTENER_CLOSED'" "set it to yes (build everything here) or no (public images), or unset it" ;;
  esac
  export SHORTENER_CLOSED why_closed
}

# True if everything is built here.
closed() {
  decide
  [[ $SHORTENER_CLOSED == yes ]]
}

# Prints the decision as a sentence.
chosen_way() {
  if closed; then
    printf 'Everything is built here from packages and nothing is pulled: %s\n' "$why_closed"
  else
    printf 'Public images are pulled%s: %s\n' "${SHORTENER_MIRROR:+ from the mirror $SHORTENER_MIRROR}" "$why_closed"
  fi
}

# import_debian <image> mmdebstrap-arguments...: makes the image from a root file system of Debian packages. The image gets its
# name at the end, because an engine also imports an empty file system. mmdebstrap has dash write to its next free descriptor,
# which must be below ten, so it gets none of the locks.
import_debian() {
  local image=$1 part=$1-part
  shift
  (
    for number in /proc/self/fd/*; do
      number=${number##*/}
      if ((number > 2)); then exec {number}>&-; fi
    done
    exec mmdebstrap "$@"
  ) | docker import - "$part" || return
  docker tag "$part" "$image"
  docker image rm "$part"
}

# apt_install package...: installs those of these Debian packages that are missing.
apt_install() {
  local missing=() package
  for package in "$@"; do
    if [[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) != installed ]]; then missing+=("$package"); fi
  done
  if ((${#missing[@]} == 0)); then return; fi
  if ! command -v apt-get >/dev/null || ((EUID != 0)); then
    die "these packages are missing: ${missing[*]}" "install them with this machine's package manager, or run this as root on Debian"
  fi
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "${missing[@]}"
}

# Prints the description of this machine's own Debian mirrors, for mmdebstrap.
debian_sources() {
  local file
  for file in /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list; do
    if [[ -s $file ]]; then
      printf '%s\n' "$file"
      return
    fi
  done
  die "neither debian.sources nor sources.list in /etc/apt names a source of Debian packages" \
    "run this on Debian 12, or set SHORTENER_CLOSED=no to pull public images"
}

# Prints the address of the mirror of this machine's Debian packages.
debian_mirror() {
  sed -n -e 's/^URIs:[[:space:]]*\([^[:space:]]*\).*/\1/p' -e 's/^deb \(\[[^]]*\] \)\{0,1\}\([^[:space:]]*\).*/\2/p' "$(debian_sources)" |
    sed -n 1p
}
