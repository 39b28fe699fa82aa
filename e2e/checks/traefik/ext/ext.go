// Package ext stands for the extensions of Traefik's configuration, which are none.
package ext

// HTTP is the extension of the configuration for HTTP.
type HTTP struct{}

// Router is the extension of a router.
type Router struct{}
