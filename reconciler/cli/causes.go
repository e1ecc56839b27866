package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/reconciler/health"
	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// makesPods are the kinds that are unwell because their pods are.
var makesPods = []string{"Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "ReplicationController", "Job"}

// causes says of workloads that are unwell which of their pods is, and why: the
// workload itself knows only that one of three is not there. What cannot be read
// is left as it is.
func causes(ctx context.Context, c client.Reader, unhealthy []v1alpha1.ObjectHealth) []v1alpha1.ObjectHealth {
	out := slices.Clone(unhealthy)
	pods := map[string][]*corev1.Pod{} // by namespace
	for i := range out {
		kind, rest, _ := strings.Cut(out[i].Object, "/")
		if !slices.Contains(makesPods, kind) {
			continue
		}
		key := schema.ParseKey(rest)
		if _, ok := pods[key.Namespace]; !ok {
			pods[key.Namespace], _ = client.ListAll[*corev1.Pod](ctx, c, client.ListOptions{Namespace: key.Namespace})
		}
		if text := cause(pods[key.Namespace], kind, key.Name); text != "" && !strings.Contains(out[i].Message, text) {
			out[i].Message += ": " + text
		}
	}
	return out
}

// cause is what is wrong with the pods of a workload: the worst first.
func cause(pods []*corev1.Pod, kind, name string) string {
	best, found := "", health.Healthy
	for _, p := range pods {
		if !ownedBy(p, kind, name) {
			continue
		}
		h := health.Of(p)
		worse := h.Status == health.Degraded && found != health.Degraded || h.Status == health.Progressing && found == health.Healthy
		if worse {
			best, found = fmt.Sprintf("%s: %s", render.ObjectName("Pod", schema.KeyOf(p)), h.Message), h.Status
		}
	}
	return best
}

// ownedBy says whether a pod is of a workload. The ReplicaSets of a Deployment
// have its name and the hash that their pods are labelled with.
func ownedBy(p *corev1.Pod, kind, name string) bool {
	owner := metav1.GetControllerOf(p)
	if owner == nil {
		return false
	}
	if kind == "Deployment" {
		return owner.Kind == "ReplicaSet" && owner.Name == name+"-"+p.Labels["pod-template-hash"]
	}
	return owner.Kind == kind && owner.Name == name
}
