// Pins the modules with the definitions of the Gateway API and of Contour. Nothing of them is compiled.
module shortener.dev/e2e/gateway-definitions

go 1.26.3

require (
	github.com/projectcontour/contour v1.33.8
	sigs.k8s.io/gateway-api v1.5.1
)
