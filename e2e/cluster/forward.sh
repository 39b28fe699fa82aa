# shellcheck shell=bash
# Forwarded ports of the stack demo, for servers that the gateway does not lead to. Sourced after lib.sh.

forwards=()
# The namespace of the stack.
forward_namespace=default

# forward <kind/name> <port>: forwards a free port here to the port and sets `forwarded` to its
# address. It lasts until end_forwards.
forward() {
  local target=$1 port=$2 log=$logs/forward-${1##*/}-$2.log deadline=$((SECONDS + 60)) pid
  forwarded=
  kubectl port-forward --namespace "$forward_namespace" "$target" ":$port" >"$log" 2>&1 </dev/null &
  pid=$!
  forwards+=("$pid")
  until [[ -n $forwarded ]]; do
    if ! kill -0 "$pid" 2>/dev/null || ((SECONDS >= deadline)); then
      cat "$log"
      echo "kubectl could not forward port $port of $target; its log is above"
      return 1
    fi
    sleep 0.2
    # Forwarding from 127.0.0.1:40123 -> 6333
    forwarded=$(sed -n 's/^Forwarding from \(127\.0\.0\.1:[0-9]*\) .*/\1/p' "$log")
  done
}

end_forwards() {
  if ((${#forwards[@]} > 0)); then kill "${forwards[@]}" 2>/dev/null || true; fi
}
