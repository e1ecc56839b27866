// Package endpoint finds an address at which a Service answers, for the parts
// of the API server that call Services: webhooks and aggregated API servers.
//
// It reads Services and EndpointSlices and owns nothing. It promises an address
// of a ready endpoint, so that calls work on machines that have no service
// proxy; each call may give another one.
package endpoint

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

// Resolve returns host:port of an endpoint of a Service's port. Errors are
// those of the API, with upstream's words: the Service is not found, has no
// such port, or nothing is ready behind it.
func Resolve(c client.Cache, namespace, name string, port int32) (string, error) {
	o, ok := c.Get(schema.ResourceFor[*corev1.Service](), schema.Key{Namespace: namespace, Name: name})
	if !ok {
		return "", apierrors.NewNotFound(corev1.Resource("service"), name) // as upstream's lister says it
	}
	svc, ok := o.(*corev1.Service)
	if !ok {
		return "", fmt.Errorf("service %s/%s is a %T", namespace, name, o)
	}
	if svc.Spec.Type == corev1.ServiceTypeExternalName {
		return net.JoinHostPort(svc.Spec.ExternalName, strconv.Itoa(int(port))), nil
	}
	p := PortOf(svc, port)
	if p == nil {
		return "", apierrors.NewServiceUnavailable(fmt.Sprintf("no service port %d found for service %q", port, name))
	}
	all := Ready(Slices(c, namespace, name), p.Name)
	if len(all) == 0 {
		return "", apierrors.NewServiceUnavailable(fmt.Sprintf("no endpoints available for service %q", name))
	}
	return all[rand.N(len(all))], nil
}

// PortOf returns the port of a Service with a number; nil when it has none.
func PortOf(svc *corev1.Service, port int32) *corev1.ServicePort {
	for i := range svc.Spec.Ports {
		if svc.Spec.Ports[i].Port == port {
			return &svc.Spec.Ports[i]
		}
	}
	return nil
}

// Slices returns the EndpointSlices of a Service.
func Slices(c client.Cache, namespace, service string) []*discoveryv1.EndpointSlice {
	var out []*discoveryv1.EndpointSlice
	for _, o := range c.List(schema.ResourceFor[*discoveryv1.EndpointSlice](), namespace) {
		if s, ok := o.(*discoveryv1.EndpointSlice); ok && s.Labels[discoveryv1.LabelServiceName] == service {
			out = append(out, s)
		}
	}
	return out
}

// Ready returns host:port of all ready endpoints of a named port.
func Ready(all []*discoveryv1.EndpointSlice, portName string) []string {
	var out []string
	for _, s := range all {
		for _, p := range s.Ports {
			if p.Port == nil || (p.Name != nil && *p.Name != portName) || (p.Name == nil && portName != "") {
				continue
			}
			for _, e := range s.Endpoints {
				if (e.Conditions.Ready == nil || *e.Conditions.Ready) && len(e.Addresses) > 0 {
					out = append(out, net.JoinHostPort(e.Addresses[0], strconv.Itoa(int(*p.Port))))
				}
			}
		}
	}
	return out
}
