package podset

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

// Selected returns the cached pods that a Service selects.
func Selected(cache client.Cache, svc *corev1.Service) []*corev1.Pod {
	var out []*corev1.Pod
	for _, o := range cache.List(schema.ResourceFor[*corev1.Pod](), svc.Namespace) {
		if has(o.GetLabels(), svc.Spec.Selector) {
			out = append(out, o.(*corev1.Pod))
		}
	}
	return out
}

// WakeServices maps events of pods to the Services that select them, before
// or after. A change that no Service could see wakes none.
func WakeServices(cache client.Cache) func(client.Event) []schema.Key {
	return func(ev client.Event) []schema.Key {
		pod := ev.Object.(*corev1.Pod)
		old, _ := ev.Old.(*corev1.Pod)
		if ev.Type == client.Modified && old != nil && sameEndpoint(old, pod) {
			return nil
		}
		var keys []schema.Key
		for _, o := range cache.List(schema.ResourceFor[*corev1.Service](), pod.Namespace) {
			svc := o.(*corev1.Service)
			if len(svc.Spec.Selector) == 0 {
				continue
			}
			if has(pod.Labels, svc.Spec.Selector) || old != nil && has(old.Labels, svc.Spec.Selector) {
				keys = append(keys, schema.KeyOf(svc))
			}
		}
		return keys
	}
}

// has says that labels have all that a Service selects by. It is asked for every
// Service of a namespace at each event of a pod, so no selector is built.
func has(have, selector map[string]string) bool {
	for k, want := range selector {
		if v, ok := have[k]; !ok || v != want {
			return false
		}
	}
	return true
}

// sameEndpoint says that a change of a pod changes nothing for any Service.
func sameEndpoint(a, b *corev1.Pod) bool {
	return Ready(a) == Ready(b) &&
		Done(a) == Done(b) &&
		(a.DeletionTimestamp == nil) == (b.DeletionTimestamp == nil) &&
		a.Status.PodIP == b.Status.PodIP &&
		a.Spec.NodeName == b.Spec.NodeName &&
		apiequality.Semantic.DeepEqual(a.Status.PodIPs, b.Status.PodIPs) &&
		apiequality.Semantic.DeepEqual(a.Labels, b.Labels)
}

// TargetPort finds the number of a Service's port in a pod. One by name is
// looked for among the ports of its containers and sidecars.
func TargetPort(p *corev1.Pod, sp *corev1.ServicePort) (int32, bool) {
	if sp.TargetPort.Type == intstr.Int {
		return cmp.Or(sp.TargetPort.IntVal, sp.Port), true
	}
	find := func(c *corev1.Container) (int32, bool) {
		for _, port := range c.Ports {
			if port.Name == sp.TargetPort.StrVal && cmp.Or(port.Protocol, corev1.ProtocolTCP) == cmp.Or(sp.Protocol, corev1.ProtocolTCP) {
				return port.ContainerPort, true
			}
		}
		return 0, false
	}
	for i := range p.Spec.Containers {
		if n, ok := find(&p.Spec.Containers[i]); ok {
			return n, true
		}
	}
	for i := range p.Spec.InitContainers {
		c := &p.Spec.InitContainers[i]
		if c.RestartPolicy == nil || *c.RestartPolicy != corev1.ContainerRestartPolicyAlways {
			continue
		}
		if n, ok := find(c); ok {
			return n, true
		}
	}
	return 0, false
}
