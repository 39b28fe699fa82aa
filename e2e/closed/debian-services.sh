#!/usr/bin/env bash
# debian-services.sh <image>: imports one Debian root file system with every service that a stack or a test needs.
# The service images differ only in a few files, so they share it: one installation, one layer to load.
# shellcheck source=../cluster/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../cluster/lib.sh"

image=$1
# Debian's testing suite has the versions of the operator's default images, which versions.sh compares. The stable
# suite has the previous major version of PostgreSQL, for stacks whose volumes were made with it.
suite=forky
older_suite=trixie
packages=(
  postgresql-18 "postgresql-17/$older_suite" pgbouncer valkey-server valkey-sentinel rabbitmq-server prometheus
  nginx-light libnginx-mod-http-lua libnginx-mod-http-ndk libnginx-mod-http-set-misc
  libnginx-mod-http-headers-more-filter lua-resty-core lua-resty-lrucache lua-cjson
  ca-certificates curl diffutils dumb-init procps
)

options=()
# A container needs no documentation. PostgreSQL's JIT brings a compiler (half of the whole); without it the server
# looks for the JIT library and continues without it. Prometheus' web pages, which are not used, bring a quarter of
# a gigabyte of libraries for browsers, and promtool, which is not used here, is as large as Prometheus.
for unused in '/usr/share/man/*' '/usr/share/doc/*' '/usr/share/locale/*' '/usr/share/javascript/*' '/usr/lib/*/libLLVM*' '/usr/lib/*/libz3.so*' \
  /usr/bin/promtool '/usr/lib/llvm-*' '/usr/lib/postgresql/*/lib/llvmjit*' '/usr/lib/postgresql/*/lib/bitcode/*'; do
  options+=(--dpkgopt="path-exclude=$unused")
done
# PostgreSQL's package would create a database cluster of its own. The packages' accounts get ids from 200 on,
# because the Dockerfiles set the ids of the public images, which are below 200 or 999.
# shellcheck disable=SC2016 # mmdebstrap replaces $1 by the folder of the new system
options+=(
  --dpkgopt=force-confold
  --essential-hook='mkdir -p "$1/etc/postgresql-common"'
  --essential-hook='echo create_main_cluster = false >"$1/etc/postgresql-common/createcluster.conf"'
  --essential-hook='printf "FIRST_SYSTEM_UID=200\nFIRST_SYSTEM_GID=200\n" >"$1/etc/adduser.conf"'
  --customize-hook='chroot "$1" localedef -i en_US -f UTF-8 en_US.UTF-8'
  --customize-hook='rm -rf "$1/usr/share/i18n" "$1"/var/cache/apt/* "$1"/var/lib/apt/lists/*'
)

# A mirror may be a day old, and then the lists of these suites count as expired.
source_of() { printf 'deb [check-valid-until=no] %s %s main\n' "$(debian_mirror)" "$1"; }

apt_install mmdebstrap
import_debian "$image" --variant=minbase --include="$(printf '%s,' "${packages[@]}")" "${options[@]}" \
  "$suite" - "$(source_of "$suite")" "$(source_of "$older_suite")"
