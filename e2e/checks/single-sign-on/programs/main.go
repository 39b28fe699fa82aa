// A small OpenID Connect provider for the check of single sign-on. Who signs in next is set by `POST /next` on the second
// address, with the form fields `email` and `groups` (between commas).
package main

import (
	"flag"
	"log"
	"net"
	"net/http"
	"strings"

	"github.com/oauth2-proxy/mockoidc"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "address of the provider")
	control := flag.String("control", "127.0.0.1:0", "address of POST /next")
	secret := flag.String("client-secret", "", "secret of the client `links`")
	flag.Parse()

	provider, err := mockoidc.NewServer(nil)
	if err != nil {
		log.Fatal(err)
	}
	provider.ClientID, provider.ClientSecret = "links", *secret
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	if err := provider.Start(listener, nil); err != nil {
		log.Fatal(err)
	}
	http.HandleFunc("POST /next", func(_ http.ResponseWriter, request *http.Request) {
		email := request.FormValue("email")
		provider.QueueUser(&mockoidc.MockUser{
			Subject:       email,
			Email:         email,
			EmailVerified: true,
			Groups:        strings.Split(request.FormValue("groups"), ","),
		})
	})
	log.Fatal(http.ListenAndServe(*control, nil))
}
