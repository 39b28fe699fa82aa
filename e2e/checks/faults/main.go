// A faulty connection to a registry, for tests: a proxy on loopback that passes requests on, delays, refuses or drops them.
//
//	faults <registry> <folder>
//
// Prints its own address. <folder>/plan sets its behavior, and is read at every request:
//
//	well          everything is passed on
//	slow N        every answer begins N milliseconds late and comes in small pieces, each as late
//	busy N        the next N requests for a manifest are answered with 429, and the plan is counted down
//	broken N      the next N requests for a manifest lose their connection, and the plan is counted down
//	refuse        every request for a manifest is answered with 403
//
// <folder>/requests has a line for each request.
package main

import (
	"fmt"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

type proxy struct {
	registry http.Handler
	folder   string
	lock     sync.Mutex
}

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: faults <registry> <folder>")
	}
	folder := os.Args[2]
	registry := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: os.Args[1]})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(listener.Addr())
	log.Fatal(http.Serve(listener, &proxy{registry: registry, folder: folder}))
}

func (p *proxy) ServeHTTP(answer http.ResponseWriter, request *http.Request) {
	plan, count := p.next(request)
	switch {
	case plan == "slow":
		pause := time.Duration(count) * time.Millisecond
		time.Sleep(pause)
		p.registry.ServeHTTP(&slowly{answer, pause}, request)
	case plan == "busy":
		fail(answer, http.StatusTooManyRequests, "TOOMANYREQUESTS", "you have reached your pull rate limit")
	case plan == "refuse":
		fail(answer, http.StatusForbidden, "DENIED", "requested access to the resource is denied")
	case plan == "broken":
		panic(http.ErrAbortHandler)
	default:
		p.registry.ServeHTTP(answer, request)
	}
}

// Returns the behavior for this request, and records the request. A plan for manifests passes all other requests on.
func (p *proxy) next(request *http.Request) (string, int) {
	p.lock.Lock()
	defer p.lock.Unlock()
	file := filepath.Join(p.folder, "plan")
	text, err := os.ReadFile(file)
	if err != nil {
		log.Fatal(err)
	}
	var plan string
	var count int
	_, _ = fmt.Sscan(string(text), &plan, &count)
	switch plan {
	case "busy", "broken", "refuse":
		if !strings.Contains(request.URL.Path, "/manifests/") {
			plan = "well"
		}
	}
	if plan == "busy" || plan == "broken" {
		left := fmt.Sprintf("%s %d\n", plan, count-1)
		if count <= 1 {
			left = "well\n"
		}
		if err := os.WriteFile(file, []byte(left), 0o644); err != nil {
			log.Fatal(err)
		}
	}
	p.note(plan + " " + request.Method + " " + request.URL.Path)
	return plan, count
}

func (p *proxy) note(line string) {
	file, err := os.OpenFile(filepath.Join(p.folder, "requests"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	_, _ = fmt.Fprintln(file, line)
}

func fail(answer http.ResponseWriter, status int, code, message string) {
	answer.Header().Set("Content-Type", "application/json")
	answer.WriteHeader(status)
	_, _ = fmt.Fprintf(answer, `{"errors":[{"code":%q,"message":%q}]}`, code, message)
}

// Writes each piece of an answer after a pause.
type slowly struct {
	http.ResponseWriter
	pause time.Duration
}

func (s *slowly) Write(piece []byte) (int, error) {
	time.Sleep(s.pause)
	return s.ResponseWriter.Write(piece)
}
