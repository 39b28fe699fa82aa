// Reads Ingresses with Traefik's provider for ingress-nginx, and routes requests by what it makes of them.
//
//	traefik <golden Ingress>...
//
// Fails if Traefik ignores or refuses anything in the Ingresses, or if a request reaches another service or path than in
// the table below, which is that of ingress-nginx but for one row. The services are stand-ins: nothing leaves this process but requests to its own API server.
package main

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
	traefiklog "github.com/rs/zerolog/log"
	"github.com/traefik/traefik/v3/pkg/config/dynamic"
	ingressnginx "github.com/traefik/traefik/v3/pkg/provider/kubernetes/ingress-nginx"
	"github.com/traefik/traefik/v3/pkg/safe"
	netv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/yaml"
)

// The prefix of the annotations that a controller compatible with ingress-nginx reads.
const annotations = "nginx.ingress.kubernetes.io/"

// The annotation that is for nginx alone: the buffers that a response may hold. Traefik does not need it.
const buffers = annotations + "proxy-busy-buffers-size"

// The time limit for the provider's configuration.
const deadline = 60 * time.Second

// The names of the entry points for HTTP and HTTPS.
const (
	plain  = "web"
	secure = "websecure"
)

// The path of a request, and the service and the path that it reaches.
type row struct{ path, service, reached string }

var rows = []row{
	{"/gateway-health", "gateway", "/gateway-health"},
	{"/gateway-health/", "app", "/gateway-health/"},
	{"/GATEWAY-HEALTH", "app", "/GATEWAY-HEALTH"},
	{"/gateway-healthy", "app", "/gateway-healthy"},
	{"/api/health", "app", "/health"},
	{"/api/metrics", "app", "/metrics"},
	{"/api/shorten", "app", "/shorten"},
	{"/api/shorten?x=1&y=a%2Fb", "app", "/shorten?x=1&y=a%2Fb"},
	{"/api/jobs", "app", "/jobs"},
	{"/api/docs/12", "app", "/docs/12"},
	{"/api/docs/query", "app", "/docs/query"},
	{"/api/links/Ab3_-x", "app", "/Ab3_-x"},
	{"/api/links/Ab3?q=2", "app", "/Ab3?q=2"},
	{"/api/links/", "app", "/api/links/"},
	{"/api/links/a/b", "app", "/api/links/a/b"},
	{"/api/linksX", "app", "/api/linksX"},
	{"/API/links/x", "app", "/API/links/x"},
	{"/api/shorten/", "app", "/api/shorten/"},
	{"/api/shortenX", "app", "/api/shortenX"},
	{"/API/Shorten", "app", "/API/Shorten"},
	{"/api/shorten%0a", "app", "/api/shorten%0a"},
	{"/api/links/Ab3%0a", "app", "/api/links/Ab3%0a"},
	{"/gateway-health%0a", "app", "/gateway-health%0a"},
	{"/api/admin/links/x", "app", "/api/admin/links/x"},
	{"/Ab3", "app", "/Ab3"},
	{"/Ab3+", "app", "/Ab3+"},
	{"/", "app", "/"},
	// Unlike ingress-nginx, which decodes the letter and rewrites the path; docs/gateways.md says so.
	{"/api/links/%41b3", "app", "/api/links/%41b3"},
}

func main() {
	log.SetFlags(0)
	if len(os.Args) < 2 {
		log.Fatal("usage: traefik <golden Ingress>...")
	}
	ingresses, err := read(os.Args[1:])
	if err == nil {
		err = check(ingresses)
	}
	if err != nil {
		log.Fatal("error: ", err)
	}
	fmt.Printf("Traefik routes %d paths of %d Ingresses as it should\n", len(rows), len(ingresses))
}

// Reads golden manifests, whose first document is about the test.
func read(files []string) ([]netv1.Ingress, error) {
	var ingresses []netv1.Ingress
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		_, body, found := strings.Cut(string(text), "\n---\n")
		if !found {
			return nil, fmt.Errorf("%s is no golden manifest", file)
		}
		var ingress netv1.Ingress
		if err := yaml.UnmarshalStrict([]byte(body), &ingress); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		ingresses = append(ingresses, ingress)
	}
	return ingresses, nil
}

func check(ingresses []netv1.Ingress) error {
	if err := known(ingresses); err != nil {
		return err
	}
	if err := unlimited(ingresses); err != nil {
		return err
	}
	configuration, err := configuration(ingresses, true)
	if err != nil {
		return err
	}
	if err := timeouts(configuration.HTTP); err != nil {
		return err
	}
	host, overTLS := "any.example", false
	if rule := ingresses[0].Spec.Rules[0]; rule.Host != "" {
		host = rule.Host
	}
	for _, ingress := range ingresses {
		overTLS = overTLS || len(ingress.Spec.TLS) > 0
	}
	if !overTLS {
		return routed(configuration.HTTP, plain, "http://"+host)
	}
	if err := redirected(configuration.HTTP, host); err != nil {
		return err
	}
	if err := refused(configuration.HTTP); err != nil {
		return err
	}
	return routed(configuration.HTTP, secure, "https://"+host)
}

// Checks that Traefik has every annotation in its table, but for the one that it does not need. It ignores others without
// a word.
func known(ingresses []netv1.Ingress) error {
	table := reflect.TypeFor[ingressnginx.IngressConfig]()
	var names []string
	for i := range table.NumField() {
		names = append(names, table.Field(i).Tag.Get("annotation"))
	}
	for _, ingress := range ingresses {
		for name := range ingress.Annotations {
			if name != buffers && strings.HasPrefix(name, annotations) && !slices.Contains(names, name) {
				return fmt.Errorf("Traefik does not know the annotation %s of Ingress %s", name, ingress.Name)
			}
		}
	}
	return nil
}

// Checks that Traefik's default is to limit no body, as docs/gateways.md says.
func unlimited(ingresses []netv1.Ingress) error {
	configuration, err := configuration(ingresses, false)
	if err != nil {
		return err
	}
	for name, middleware := range configuration.HTTP.Middlewares {
		if middleware.Buffering != nil {
			return fmt.Errorf("%s limits bodies by default now: say so in docs/gateways.md", name)
		}
	}
	return nil
}

// Returns what the provider makes of the Ingresses, with its options to buffer bodies or with the defaults of these. It
// reads the annotations about bodies only with the options. A warning of the provider is an error.
func configuration(ingresses []netv1.Ingress, buffering bool) (*dynamic.Configuration, error) {
	complaints := &complaints{}
	traefiklog.Logger = zerolog.New(complaints).Level(zerolog.WarnLevel)
	for _, name := range []string{"KUBECONFIG", "KUBERNETES_SERVICE_HOST"} {
		if err := os.Unsetenv(name); err != nil {
			return nil, err
		}
	}
	api := httptest.NewServer(cluster(ingresses))
	provider := &ingressnginx.Provider{}
	provider.SetDefaults()
	provider.Endpoint = api.URL
	provider.HTTPEntryPoint, provider.HTTPSEntryPoint = plain, secure
	if buffering {
		provider.ProxyRequestBuffering, provider.ProxyBuffering = true, true
	}
	if err := provider.Init(); err != nil {
		return nil, err
	}
	messages := make(chan dynamic.Message)
	if err := provider.Provide(messages, safe.NewPool(context.Background())); err != nil {
		return nil, err
	}
	select {
	case message := <-messages:
		if text := complaints.text(); text != "" {
			return nil, fmt.Errorf("Traefik complains: %s", text)
		}
		return message.Configuration, nil
	case <-time.After(deadline):
		return nil, fmt.Errorf("Traefik made no configuration within %s: %s", deadline, complaints.text())
	}
}

// The log lines of the provider.
type complaints struct {
	lock  sync.Mutex
	lines bytes.Buffer
}

func (c *complaints) Write(line []byte) (int, error) {
	c.lock.Lock()
	defer c.lock.Unlock()
	return c.lines.Write(line)
}

func (c *complaints) text() string {
	c.lock.Lock()
	defer c.lock.Unlock()
	return c.lines.String()
}

// Checks that the timeouts of the annotations reached the connections to the services.
func timeouts(configuration *dynamic.HTTPConfiguration) error {
	if len(configuration.ServersTransports) == 0 {
		return fmt.Errorf("Traefik made no transport to the services")
	}
	for name, transport := range configuration.ServersTransports {
		found := transport.ForwardingTimeouts
		got := []time.Duration{time.Duration(found.DialTimeout), time.Duration(found.ReadTimeout), time.Duration(found.WriteTimeout)}
		if want := []time.Duration{5 * time.Second, 15 * time.Second, 15 * time.Second}; !slices.Equal(got, want) {
			return fmt.Errorf("%s: the timeouts to connect, to read and to write are %v instead of %v", name, got, want)
		}
	}
	return nil
}

// Checks every row at an entry point.
func routed(configuration *dynamic.HTTPConfiguration, entryPoint, base string) error {
	router, err := router(configuration, entryPoint)
	if err != nil {
		return err
	}
	for _, row := range rows {
		answer := get(router, base+row.path)
		want := row.service + " " + row.reached
		if got := answer.Body.String(); answer.Code != http.StatusOK || got != want {
			return fmt.Errorf("%s%s: answered %d %q instead of 200 %q", base, row.path, answer.Code, got, want)
		}
	}
	return nil
}

// Checks that HTTP leads to HTTPS for every row.
func redirected(configuration *dynamic.HTTPConfiguration, host string) error {
	router, err := router(configuration, plain)
	if err != nil {
		return err
	}
	for _, row := range rows {
		answer := get(router, "http://"+host+row.path)
		want := "https://" + host + row.path
		if got := answer.Header().Get("Location"); answer.Code != http.StatusPermanentRedirect || got != want {
			return fmt.Errorf("http://%s%s: answered %d to %q instead of 308 to %q", host, row.path, answer.Code, got, want)
		}
	}
	return nil
}

// Checks that a request for another host reaches no service.
func refused(configuration *dynamic.HTTPConfiguration) error {
	router, err := router(configuration, secure)
	if err != nil {
		return err
	}
	if answer := get(router, "https://other.example/"); answer.Code != http.StatusNotFound {
		return fmt.Errorf("a request for another host is answered with %d instead of 404", answer.Code)
	}
	return nil
}

func get(router http.Handler, url string) *httptest.ResponseRecorder {
	answer := httptest.NewRecorder()
	router.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, url, nil))
	return answer
}
