package endpoints

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/controller/podset"
)

const (
	labelManagedBy = "endpoints.kubernetes.io/managed-by"
	managedBy      = "endpoint-controller"
	// maxAddresses is what one object holds; the rest is cut off, and said so.
	maxAddresses = 1000
)

// plan returns the Endpoints that a Service should have.
func plan(svc *corev1.Service, pods []*corev1.Pod, live *corev1.Endpoints) *corev1.Endpoints {
	next := &corev1.Endpoints{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Endpoints"},
		ObjectMeta: metav1.ObjectMeta{Namespace: svc.Namespace, Name: svc.Name},
	}
	if live != nil {
		next = live.DeepCopy()
	}
	next.Labels = map[string]string{labelManagedBy: managedBy}
	for k, v := range svc.Labels {
		if k != corev1.IsHeadlessService && k != labelManagedBy {
			next.Labels[k] = v
		}
	}
	if svc.Spec.ClusterIP == corev1.ClusterIPNone {
		next.Labels[corev1.IsHeadlessService] = ""
	}
	subsets, cut := limit(subsetsOf(svc, pods))
	next.Subsets = subsets
	if cut {
		metav1.SetMetaDataAnnotation(&next.ObjectMeta, corev1.EndpointsOverCapacity, "truncated")
	} else {
		delete(next.Annotations, corev1.EndpointsOverCapacity)
	}
	return next
}

// subsetsOf groups the pods by the ports that they offer.
func subsetsOf(svc *corev1.Service, pods []*corev1.Pod) []corev1.EndpointSubset {
	byPorts := map[string]*corev1.EndpointSubset{}
	for _, p := range pods {
		if p.Status.PodIP == "" || podset.Done(p) || p.DeletionTimestamp != nil && !svc.Spec.PublishNotReadyAddresses {
			continue
		}
		ports := portsOf(svc, p)
		if len(ports) == 0 && len(svc.Spec.Ports) > 0 {
			continue
		}
		key := fmt.Sprint(ports)
		s := byPorts[key]
		if s == nil {
			s = &corev1.EndpointSubset{Ports: ports}
			byPorts[key] = s
		}
		if podset.Ready(p) || svc.Spec.PublishNotReadyAddresses {
			s.Addresses = append(s.Addresses, addressOf(svc, p))
		} else {
			s.NotReadyAddresses = append(s.NotReadyAddresses, addressOf(svc, p))
		}
	}
	var out []corev1.EndpointSubset
	for _, s := range byPorts {
		slices.SortFunc(s.Addresses, byIP)
		slices.SortFunc(s.NotReadyAddresses, byIP)
		out = append(out, *s)
	}
	slices.SortFunc(out, func(a, b corev1.EndpointSubset) int { return cmp.Compare(fmt.Sprint(a.Ports), fmt.Sprint(b.Ports)) })
	return out
}

func byIP(a, b corev1.EndpointAddress) int {
	return cmp.Or(cmp.Compare(a.IP, b.IP), cmp.Compare(a.TargetRef.UID, b.TargetRef.UID))
}

func addressOf(svc *corev1.Service, p *corev1.Pod) corev1.EndpointAddress {
	a := corev1.EndpointAddress{
		IP:        p.Status.PodIP,
		TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: p.Namespace, Name: p.Name, UID: p.UID},
	}
	if node := p.Spec.NodeName; node != "" {
		a.NodeName = &node
	}
	if p.Spec.Hostname != "" && p.Spec.Subdomain == svc.Name {
		a.Hostname = p.Spec.Hostname
	}
	return a
}

func portsOf(svc *corev1.Service, p *corev1.Pod) []corev1.EndpointPort {
	var out []corev1.EndpointPort
	for _, sp := range svc.Spec.Ports {
		if n, ok := podset.TargetPort(p, &sp); ok {
			out = append(out, corev1.EndpointPort{Name: sp.Name, Port: n, Protocol: sp.Protocol, AppProtocol: sp.AppProtocol})
		}
	}
	slices.SortFunc(out, func(a, b corev1.EndpointPort) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), cmp.Compare(a.Port, b.Port), strings.Compare(string(a.Protocol), string(b.Protocol)))
	})
	return out
}

// limit cuts off what one object cannot hold: addresses that are not ready
// first.
func limit(in []corev1.EndpointSubset) ([]corev1.EndpointSubset, bool) {
	room, cut := maxAddresses, false
	take := func(a []corev1.EndpointAddress) []corev1.EndpointAddress {
		n := min(room, len(a))
		room -= n
		cut = cut || n < len(a)
		return a[:n:n]
	}
	for i := range in {
		in[i].Addresses = take(in[i].Addresses)
	}
	for i := range in {
		in[i].NotReadyAddresses = take(in[i].NotReadyAddresses)
	}
	return in, cut
}
