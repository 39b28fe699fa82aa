// Pins the Traefik whose provider for ingress-nginx reads our Ingresses. The replacements are Traefik's own.
module shortener.dev/e2e/traefik

go 1.26.0

require (
	github.com/rs/zerolog v1.34.0
	github.com/traefik/traefik/v3 v3.7.13
	k8s.io/api v0.35.2
	k8s.io/apimachinery v0.35.2
	sigs.k8s.io/yaml v1.6.0
)

replace (
	github.com/abbot/go-http-auth => github.com/containous/go-http-auth v0.4.1-0.20200324110947-a37a7636d23e
	github.com/gorilla/mux => github.com/containous/mux v0.0.0-20250523120546-41b6ec3aed59
)
