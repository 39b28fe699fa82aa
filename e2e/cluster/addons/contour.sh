#!/usr/bin/env bash
# Installs the Gateway API and Contour in the cluster of $KUBECONFIG, for the tests of the gateway provider GatewayAPI. The
# Gateway contour in the namespace projectcontour serves HTTP at port 30080 of the node and HTTPS at port 30043. A second
# run changes nothing.
# shellcheck source=../lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
# shellcheck source=../releases.sh
. "$cluster_dir/releases.sh"

addons=$cluster_dir/addons
# shellcheck source=../../images/names.sh
. "$repo/e2e/images/names.sh"

# The host of the tests' shared stacks, and with a label before it those of the others: a wildcard needs two labels after it.
host=e2e-shared-gateway-api.test

# definition <module path> <file>: prints a file of a module, from the module cache or from a pinned archive.
definition() {
  local module=$1 file=$2 name archive
  if closed; then
    cat "$(module_dir "$closed_dir/modules/definitions" "$module")/$file"
  else
    name=${module##*/}
    archive=$cache/definitions/$name-$(release "$name" version).zip
    fetch_release "$name" "$archive" >&2
    unzip -p "$archive" "*/$file"
  fi
}

install_definitions() {
  local kind
  for kind in gatewayclasses gateways grpcroutes httproutes referencegrants; do
    definition sigs.k8s.io/gateway-api "config/crd/standard/gateway.networking.k8s.io_$kind.yaml" |
      kubectl apply --server-side --filename -
  done
  # Contour watches its own kinds as well, and does not start without them.
  definition github.com/projectcontour/contour examples/contour/01-crds.yaml | kubectl apply --server-side --filename -
  kubectl wait --for condition=Established --timeout 60s \
    customresourcedefinition/{gateways,httproutes,referencegrants}.gateway.networking.k8s.io
}

# Makes the certificate of the Gateway. It is its own authority, so it must not claim to be one for others.
make_certificate() {
  local folder
  if kubectl --namespace projectcontour get secret shared-tls >/dev/null 2>&1; then return; fi
  if closed; then apt_install openssl; fi
  folder=$(mktemp -d)
  cat >"$folder/settings" <<SETTINGS
[req]
prompt = no
distinguished_name = name
x509_extensions = extensions
[name]
CN = tests
[extensions]
subjectAltName = DNS:$host, DNS:*.$host
basicConstraints = critical, CA:FALSE
SETTINGS
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 365 -config "$folder/settings" \
    -keyout "$folder/key" -out "$folder/certificate"
  kubectl --namespace projectcontour create secret tls shared-tls --cert "$folder/certificate" --key "$folder/key"
  rm -r "$folder"
}

images() {
  if closed; then printf '%s %s\n' "$contour_image" "$envoy_image"; else printf '%s %s\n' "$public_contour" "$public_envoy"; fi
}

# Prints what changes with the images: on a closed machine their tags stay.
image_ids() {
  if closed; then docker image inspect --format '{{.Id}}' "$@" | paste -s -d ' ' -; else printf '%s\n' "$*"; fi
}

install_contour() {
  local contour envoy address
  read -r contour envoy < <(images)
  address=$(kubectl get nodes --output 'jsonpath={.items[0].status.addresses[?(@.type=="InternalIP")].address}')
  kubectl create namespace projectcontour --dry-run=client --output yaml | kubectl apply --filename -
  make_certificate
  # The ClusterRole and a Role, which is not bound.
  definition github.com/projectcontour/contour examples/contour/02-role-contour.yaml | kubectl apply --filename -
  sed -e "s|@CONTOUR@|$contour|" -e "s|@ENVOY@|$envoy|" -e "s|@IMAGES@|$(image_ids "$contour" "$envoy")|" \
    -e "s|@NODE@|$address|" "$addons/contour.yaml" | kubectl apply --filename -
  kubectl --namespace projectcontour rollout status --timeout 180s deployment/contour
  kubectl --namespace projectcontour wait --for condition=Programmed --timeout 60s gateway/contour
}

if closed; then
  "$repo/e2e/images/build.sh" gateway
  "$cluster_dir/load.sh" "$contour_image" "$envoy_image"
fi
remedy="check that this machine reaches the Go module proxy" \
  step "Install the definitions of the Gateway API" install_definitions
remedy="kubectl -n projectcontour describe pods,gateways; kubectl -n projectcontour logs deploy/contour --all-containers" \
  step "Install Contour" install_contour
