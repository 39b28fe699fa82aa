package main

import (
	"encoding/json"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	netv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The namespace of the golden manifests, and the name of the port of every Service in them.
const (
	namespace = "links"
	port      = "http"
)

// The addresses of the pods behind each Service of the stack, by the name that the rows have for it.
var pods = map[string]string{"app": "10.0.0.1", "gateway": "10.0.0.2"}

// The number of the port that the pods listen on.
const target int32 = 3000

// Returns an API server that has these Ingresses, and what they refer to. It never changes.
func cluster(ingresses []netv1.Ingress) http.Handler {
	classes := []netv1.IngressClass{{
		ObjectMeta: metav1.ObjectMeta{Name: "nginx"},
		Spec:       netv1.IngressClassSpec{Controller: "k8s.io/ingress-nginx"},
	}}
	var services []corev1.Service
	var slices []discoveryv1.EndpointSlice
	for name, address := range pods {
		service, slice := behind("acme-"+name, address)
		services = append(services, service)
		slices = append(slices, slice)
	}
	secrets := []corev1.Secret{{
		ObjectMeta: named("go-tls"),
		Type:       corev1.SecretTypeTLS,
		Data:       map[string][]byte{corev1.TLSCertKey: []byte("certificate"), corev1.TLSPrivateKeyKey: []byte("key")},
	}}
	const networking, discovery = "networking.k8s.io/v1", "discovery.k8s.io/v1"
	return lists{
		"/apis/networking.k8s.io/v1/ingressclasses": netv1.IngressClassList{TypeMeta: kind(networking, "IngressClassList"), ListMeta: version, Items: classes},
		"/apis/networking.k8s.io/v1/ingresses":      netv1.IngressList{TypeMeta: kind(networking, "IngressList"), ListMeta: version, Items: ingresses},
		"/apis/discovery.k8s.io/v1/endpointslices":  discoveryv1.EndpointSliceList{TypeMeta: kind(discovery, "EndpointSliceList"), ListMeta: version, Items: slices},
		"/api/v1/services":                          corev1.ServiceList{TypeMeta: kind("v1", "ServiceList"), ListMeta: version, Items: services},
		"/api/v1/secrets":                           corev1.SecretList{TypeMeta: kind("v1", "SecretList"), ListMeta: version, Items: secrets},
		"/api/v1/configmaps":                        corev1.ConfigMapList{TypeMeta: kind("v1", "ConfigMapList"), ListMeta: version},
	}
}

// Returns a Service and the endpoints of its only pod.
func behind(name, address string) (corev1.Service, discoveryv1.EndpointSlice) {
	portName, number := port, target
	service := corev1.Service{
		ObjectMeta: named(name),
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: port, Port: 80}}},
	}
	slice := discoveryv1.EndpointSlice{
		ObjectMeta:  named(name),
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{address}}},
		Ports:       []discoveryv1.EndpointPort{{Name: &portName, Port: &number}},
	}
	slice.Labels = map[string]string{discoveryv1.LabelServiceName: name}
	return service, slice
}

var version = metav1.ListMeta{ResourceVersion: "1"}

func named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, ResourceVersion: "1"}
}

func kind(version, name string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: version, Kind: name}
}

// The lists of an API server, by their paths.
type lists map[string]any

func (l lists) ServeHTTP(answer http.ResponseWriter, request *http.Request) {
	query := request.URL.Query()
	list, found := l[request.URL.Path]
	answer.Header().Set("Content-Type", "application/json")
	switch {
	case !found:
		refuse(answer, http.StatusNotFound, metav1.StatusReasonNotFound)
	case query.Get("sendInitialEvents") == "true":
		// The client lists and then watches instead.
		refuse(answer, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid)
	case query.Get("watch") == "true":
		answer.(http.Flusher).Flush()
		<-request.Context().Done()
	default:
		_ = json.NewEncoder(answer).Encode(list)
	}
}

func refuse(answer http.ResponseWriter, code int32, reason metav1.StatusReason) {
	answer.WriteHeader(int(code))
	_ = json.NewEncoder(answer).Encode(metav1.Status{TypeMeta: kind("v1", "Status"), Status: metav1.StatusFailure, Code: code, Reason: reason})
}
