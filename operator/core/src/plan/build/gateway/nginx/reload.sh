# The kubelet replaces the files of a renewed certificate by moving the link ..data. nginx reads them again when it
# receives SIGHUP: requests in flight finish on the old workers, and a broken pair leaves the old one in use.
known=$(readlink /etc/shortener-tls/..data || true)
(
  while sleep 5; do
    now=$(readlink /etc/shortener-tls/..data || true)
    if [ "$now" != "$known" ]; then
      known=$now
      echo 'the files of the certificate have changed: nginx reads them again' >&2
      # nginx replaces the shell that is the first process of the container. Its variable for that is out of reach here:
      # Kubernetes takes two dollar signs in arguments for an escaped one.
      kill -HUP 1 || exit 0
    fi
  done
) &
