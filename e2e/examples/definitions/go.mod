// Pins the modules whose resource definitions the examples are held to. Nothing of them is compiled.
module shortener.dev/e2e/definitions

go 1.26.3

require (
	github.com/argoproj/argo-cd/v3 v3.5.7
	github.com/cert-manager/cert-manager v1.21.2
	github.com/cloudnative-pg/cloudnative-pg v1.28.0
	github.com/external-secrets/external-secrets v1.3.2
	github.com/fluxcd/helm-controller v1.4.0
	github.com/fluxcd/kustomize-controller v1.9.6
	github.com/fluxcd/source-controller v1.9.6
	github.com/kedacore/keda/v2 v2.21.0
	github.com/rabbitmq/cluster-operator/v2 v2.16.0
	github.com/rabbitmq/messaging-topology-operator v1.16.0
)
