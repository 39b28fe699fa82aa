#!/usr/bin/env bash
# Makes sure that a Docker engine answers: uses the running one, starts the installed one, or installs Debian's.
# shellcheck source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# RUNLEVEL keeps an old-style init script from starting the engine: start_engine starts it with the right arguments.
install_engine() {
  RUNLEVEL=1 apt_install docker.io iptables cgroupfs-mount ca-certificates
  if runs_systemd && lacks_sys_resource; then systemctl disable --now docker.socket docker.service; fi
}

runs_systemd() { [[ -d /run/systemd/system ]]; }

# Containers need mounted cgroup controllers; a machine without an init system may not have mounted them.
mount_cgroups() {
  if [[ ! -f /sys/fs/cgroup/cgroup.controllers && ! -d /sys/fs/cgroup/memory ]]; then
    apt_install cgroupfs-mount
    cgroupfs-mount
  fi
}

# A killed engine leaves a file with its process id behind. Another process may have that id by now, and an engine
# that finds it alive does not start.
forget_killed_engine() {
  local file pid
  for file in /var/run/docker.pid /var/run/docker/containerd/containerd.pid; do
    pid=$(cat "$file" 2>/dev/null) || continue
    case $(cat "/proc/$pid/comm" 2>/dev/null) in
      dockerd | containerd) ;;
      *) rm -f "$file" ;;
    esac
  done
}

start_engine() {
  local arguments=() wrapper=$cache/runtime-wrapper.sh
  mount_cgroups
  forget_killed_engine
  if lacks_sys_resource; then
    # The engine grants a privileged container every capability that it knows, and fails on the one that it lacks
    # itself. The engine outlives this checkout, so it gets a copy.
    install -m 0755 "$closed_dir/runtime-wrapper.sh" "$wrapper"
    arguments+=(--add-runtime "without-sys-resource=$wrapper")
    arguments+=(--default-runtime without-sys-resource)
  fi
  # It runs in a session of its own without a terminal, because the engine must outlive the script that starts it.
  setsid dockerd "${arguments[@]}" </dev/null >"$logs/dockerd.log" 2>&1 &
}

wait_for_engine() {
  local deadline=$((SECONDS + 60))
  until engine_answers; do
    if ((SECONDS >= deadline)); then
      tail -n 20 "$logs/dockerd.log"
      return 1
    fi
    sleep 0.3
  done
}

start_and_wait() {
  if runs_systemd && ! lacks_sys_resource; then systemctl start docker; else start_engine; fi
  wait_for_engine
}

main() {
  if engine_answers; then return; fi
  need_startable_engine
  if ! command -v dockerd >/dev/null; then
    remedy="install Docker yourself: https://docs.docker.com/engine/install/" \
      step "Install the Docker engine" install_engine
  fi
  remedy="read $logs/dockerd.log, or with systemd: journalctl --unit docker" step "Start the Docker engine" start_and_wait
}

main
