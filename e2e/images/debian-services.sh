#!/usr/bin/env bash
# debian-services.sh <image>: imports one Debian root file system with every service that a stack or a test needs.
# The service images differ in a few files only, so they share it: one installation, one layer to load.
# shellcheck source=../cluster/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../cluster/lib.sh"

image=$1
# Debian's testing suite has the versions of the operator's default images, which contract.sh compares. The stable suite has
# the last major version of PostgreSQL, which stacks keep that were made with it.
suite=forky
older_suite=trixie
packages=(
  postgresql-18 "postgresql-17/$older_suite" valkey-server valkey-sentinel rabbitmq-server prometheus
  nginx-light libnginx-mod-http-lua libnginx-mod-http-ndk libnginx-mod-http-set-misc
  libnginx-mod-http-headers-more-filter lua-resty-core lua-resty-lrucache lua-cjson
  ca-certificates curl diffutils dumb-init procps
)

options=()
# Documentation is of no use in a container, and without the compiler that PostgreSQL's JIT brings (half of the whole)
# the server runs as before: it looks for the JIT library and goes on when there is none. Prometheus' web pages bring
# libraries for browsers, a quarter of a gigabyte, and nobody looks at the pages.
for unused in '/usr/share/man/*' '/usr/share/doc/*' '/usr/share/locale/*' '/usr/share/javascript/*' '/usr/lib/*/libLLVM*' '/usr/lib/*/libz3.so*' \
  '/usr/lib/llvm-*' '/usr/lib/postgresql/*/lib/llvmjit*' '/usr/lib/postgresql/*/lib/bitcode/*'; do
  options+=(--dpkgopt="path-exclude=$unused")
done
# PostgreSQL's package would create a database cluster of its own. Accounts of the packages get numbers from 200 on,
# because those of the public images, which the Dockerfiles set, are below or at 999.
# shellcheck disable=SC2016 # mmdebstrap replaces $1 by the folder of the new system
options+=(
  --dpkgopt=force-confold
  --essential-hook='mkdir -p "$1/etc/postgresql-common"'
  --essential-hook='echo create_main_cluster = false >"$1/etc/postgresql-common/createcluster.conf"'
  --essential-hook='printf "FIRST_SYSTEM_UID=200\nFIRST_SYSTEM_GID=200\n" >"$1/etc/adduser.conf"'
  --customize-hook='chroot "$1" localedef -i en_US -f UTF-8 en_US.UTF-8'
  --customize-hook='rm -rf "$1/usr/share/i18n" "$1"/var/cache/apt/* "$1"/var/lib/apt/lists/*'
)

# A mirror may be a copy of a day, whose lists of these suites count as expired.
source_of() { printf 'deb [check-valid-until=no] %s %s main\n' "$(debian_mirror)" "$1"; }

apt_install mmdebstrap
mmdebstrap --variant=minbase --include="$(printf '%s,' "${packages[@]}")" "${options[@]}" \
  "$suite" - "$(source_of "$suite")" "$(source_of "$older_suite")" |
  docker import - "$image"
