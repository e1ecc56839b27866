package page

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/writ-os/writ/schema"
)

// factsOf is what there is to know of an object at a glance. nodeHref is the
// page of a node; "" where there is none for the viewer.
func factsOf(it *item, nodeHref func(string) string) []fact {
	var out []fact
	add := func(name, value string) {
		if value != "" {
			out = append(out, fact{Name: name, Value: cut(value, 500)})
		}
	}
	switch o := it.object.(type) {
	case *appsv1.Deployment:
		add("Replicas", replicaText(o.Spec.Replicas, o.Status.ReadyReplicas, o.Status.UpdatedReplicas))
		add("Strategy", string(o.Spec.Strategy.Type))
		add("Images", images(&o.Spec.Template.Spec))
	case *appsv1.StatefulSet:
		add("Replicas", replicaText(o.Spec.Replicas, o.Status.ReadyReplicas, o.Status.UpdatedReplicas))
		add("Service", o.Spec.ServiceName)
		add("Images", images(&o.Spec.Template.Spec))
	case *appsv1.DaemonSet:
		add("Nodes", fmt.Sprintf("%d of %d ready", o.Status.NumberReady, o.Status.DesiredNumberScheduled))
		add("Images", images(&o.Spec.Template.Spec))
	case *appsv1.ReplicaSet:
		add("Replicas", replicaText(o.Spec.Replicas, o.Status.ReadyReplicas, o.Status.Replicas))
		add("Images", images(&o.Spec.Template.Spec))
	case *batchv1.Job:
		add("Pods", fmt.Sprintf("%d active, %d succeeded, %d failed", o.Status.Active, o.Status.Succeeded, o.Status.Failed))
		add("Images", images(&o.Spec.Template.Spec))
	case *batchv1.CronJob:
		add("Schedule", o.Spec.Schedule)
	case *corev1.Pod:
		out = append(out, podFacts(o, nodeHref)...)
	case *corev1.Service:
		add("Type", string(o.Spec.Type))
		add("Cluster IP", strings.Join(o.Spec.ClusterIPs, ", "))
		add("Ports", servicePorts(o.Spec.Ports))
		add("Selects", selector(o.Spec.Selector))
	case *networkingv1.Ingress:
		var hosts []string
		for _, r := range o.Spec.Rules {
			hosts = append(hosts, r.Host)
		}
		add("Hosts", strings.Join(hosts, ", "))
	case *corev1.ConfigMap:
		add("Keys", keysOf(o.Data, len(o.BinaryData)))
	case *corev1.Secret:
		add("Type", string(o.Type))
		add("Keys", keysOf(o.Data, 0))
	case *corev1.PersistentVolumeClaim:
		add("Phase", string(o.Status.Phase))
		add("Volume", o.Spec.VolumeName)
		if q, ok := o.Spec.Resources.Requests[corev1.ResourceStorage]; ok {
			add("Size", q.String())
		}
	case *corev1.Namespace:
		add("Phase", string(o.Status.Phase))
	}
	return out
}

func podFacts(p *corev1.Pod, nodeHref func(string) string) []fact {
	out := []fact{{Name: "Phase", Value: string(p.Status.Phase)}}
	if p.Spec.NodeName != "" {
		out = append(out, fact{Name: "Node", Value: p.Spec.NodeName, Href: nodeHref(p.Spec.NodeName)})
	}
	if p.Status.PodIP != "" {
		out = append(out, fact{Name: "Address", Value: p.Status.PodIP})
	}
	restarts := int32(0)
	for _, s := range p.Status.ContainerStatuses {
		restarts += s.RestartCount
	}
	return append(out, fact{Name: "Restarts", Value: strconv.Itoa(int(restarts))}, fact{Name: "Quality", Value: string(p.Status.QOSClass)},
		fact{Name: "Account", Value: cmp.Or(p.Spec.ServiceAccountName, "default")})
}

func replicaText(want *int32, ready, updated int32) string {
	n := int32(1)
	if want != nil {
		n = *want
	}
	return fmt.Sprintf("%d of %d ready, %d up to date", ready, n, updated)
}

func images(s *corev1.PodSpec) string {
	var out []string
	for _, c := range slices.Concat(s.InitContainers, s.Containers) {
		out = append(out, imageName(c.Image))
	}
	return strings.Join(out, ", ")
}

func servicePorts(ports []corev1.ServicePort) string {
	var out []string
	for _, p := range ports {
		s := strconv.Itoa(int(p.Port))
		if t := p.TargetPort.String(); t != "0" && t != s {
			s += " → " + t
		}
		out = append(out, s+"/"+string(cmp.Or(p.Protocol, corev1.ProtocolTCP)))
	}
	return strings.Join(out, ", ")
}

func selector(m map[string]string) string {
	var out []string
	for k, v := range m {
		out = append(out, k+"="+v)
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

func keysOf[V any](m map[string]V, more int) string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	if more > 0 {
		out = append(out, plural(more, "binary key"))
	}
	return strings.Join(out, ", ")
}

// condition is one of status.conditions.
type condition struct {
	Type, Status, Reason, Message string
	Time                          time.Time
}

// conditionsOf reads status.conditions, which nearly every kind has.
func conditionsOf(o schema.Object) []condition {
	if o == nil {
		return nil
	}
	content := map[string]any{}
	if u, ok := o.(*unstructured.Unstructured); ok {
		content = u.Object
	} else if m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o); err == nil {
		content = m
	}
	list, _, _ := unstructured.NestedSlice(content, "status", "conditions") // a custom resource may have anything there
	var out []condition
	for _, e := range list {
		m, ok := e.(map[string]any)
		if !ok || len(out) == 50 {
			continue
		}
		text := func(k string) string { s, _ := m[k].(string); return s }
		c := condition{Type: text("type"), Status: text("status"), Reason: text("reason"), Message: text("message")}
		if t, err := time.Parse(time.RFC3339, text("lastTransitionTime")); err == nil {
			c.Time = t
		}
		out = append(out, c)
	}
	return out
}
