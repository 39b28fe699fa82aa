package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"

	"github.com/traefik/traefik/v3/pkg/config/dynamic"
	"github.com/traefik/traefik/v3/pkg/middlewares/ingressnginx/rewritetarget"
	"github.com/traefik/traefik/v3/pkg/middlewares/redirect"
	"github.com/traefik/traefik/v3/pkg/middlewares/requestdecorator"
	httpmuxer "github.com/traefik/traefik/v3/pkg/muxer/http"
	ingressnginx "github.com/traefik/traefik/v3/pkg/provider/kubernetes/ingress-nginx"
)

// The limit of bodies in the annotation proxy-body-size.
const bodyLimit int64 = 128 * 1024

// Returns Traefik's router for an entry point. In place of the services are handlers that answer with the service and
// the path that they got.
func router(configuration *dynamic.HTTPConfiguration, entryPoint string) (http.Handler, error) {
	parser, err := httpmuxer.NewSyntaxParser()
	if err != nil {
		return nil, err
	}
	muxer := httpmuxer.NewMuxer(parser, nil)
	for name, router := range configuration.Routers {
		if !slices.Contains(router.EntryPoints, entryPoint) {
			continue
		}
		handler, err := handler(configuration, router)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		priority := router.Priority
		if priority == 0 {
			priority = httpmuxer.GetRulePriority(router.Rule)
		}
		if err := muxer.AddRoute(router.Rule, router.RuleSyntax, priority, ingressnginx.ProviderName, handler); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	decorator := requestdecorator.New(nil)
	return http.HandlerFunc(func(answer http.ResponseWriter, request *http.Request) {
		decorator.ServeHTTP(answer, request, muxer.ServeHTTP)
	}), nil
}

// Returns the service of a router behind its middlewares. One that none of our annotations asks for is an error.
func handler(configuration *dynamic.HTTPConfiguration, router *dynamic.Router) (http.Handler, error) {
	handler, err := service(configuration, router.Service)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Backward(router.Middlewares) {
		middleware, found := configuration.Middlewares[name]
		if !found {
			return nil, fmt.Errorf("there is no middleware %s", name)
		}
		switch ctx := context.Background(); {
		case middleware.RewriteTarget != nil:
			handler, err = rewritetarget.New(ctx, handler, *middleware.RewriteTarget, name)
		case middleware.RedirectScheme != nil:
			handler, err = redirect.NewRedirectScheme(ctx, handler, *middleware.RedirectScheme, name)
		case middleware.Buffering != nil:
			if limit := middleware.Buffering.MaxRequestBodyBytes; limit != bodyLimit {
				err = fmt.Errorf("bodies are limited to %d bytes instead of %d", limit, bodyLimit)
			}
		case middleware.Retry != nil:
			// The default of ingress-nginx as well. A POST would create a second link.
			if middleware.Retry.RetryNonIdempotentMethod {
				err = fmt.Errorf("a POST is sent twice")
			}
		default:
			err = fmt.Errorf("the middleware %s is none of ours", name)
		}
		if err != nil {
			return nil, err
		}
	}
	return handler, nil
}

// Returns a handler that answers with the name of the service, which its only server tells, and the request's target.
func service(configuration *dynamic.HTTPConfiguration, name string) (http.Handler, error) {
	found, ok := configuration.Services[name]
	if !ok || found.LoadBalancer == nil || len(found.LoadBalancer.Servers) != 1 {
		return nil, fmt.Errorf("the service %s has not exactly one server", name)
	}
	for service, address := range pods {
		if found.LoadBalancer.Servers[0].URL == "http://"+net.JoinHostPort(address, strconv.Itoa(int(target))) {
			return http.HandlerFunc(func(answer http.ResponseWriter, request *http.Request) {
				_, _ = fmt.Fprintf(answer, "%s %s", service, request.URL.RequestURI())
			}), nil
		}
	}
	return nil, fmt.Errorf("the service %s leads to %s", name, found.LoadBalancer.Servers[0].URL)
}
