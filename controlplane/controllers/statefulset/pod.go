package statefulset

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/controller/podset"
	"github.com/writ-os/writ/schema"
)

func podName(set *appsv1.StatefulSet, n int) string { return set.Name + "-" + strconv.Itoa(n) }

// ordinalOf returns the number in a pod's name.
func ordinalOf(set *appsv1.StatefulSet, pod string) (int, bool) {
	digits, ok := strings.CutPrefix(pod, set.Name+"-")
	if !ok {
		return 0, false
	}
	n, err := strconv.Atoi(digits)
	return n, err == nil && n >= 0 && strconv.Itoa(n) == digits
}

// newPod returns the pod of a number.
func newPod(set *appsv1.StatefulSet, t *corev1.PodTemplateSpec, hash string, n int) *corev1.Pod {
	p := podset.FromTemplate(t, set)
	p.GenerateName = ""
	p.Name = podName(set, n)
	p.Labels = maps.Clone(p.Labels)
	if p.Labels == nil {
		p.Labels = map[string]string{}
	}
	p.Labels[appsv1.StatefulSetPodNameLabel] = p.Name
	p.Labels[appsv1.PodIndexLabel] = strconv.Itoa(n)
	p.Labels[appsv1.ControllerRevisionHashLabelKey] = hash
	p.Spec.Hostname = p.Name
	p.Spec.Subdomain = set.Spec.ServiceName
	mount(set, p, n)
	return p
}

// mount gives the pod its claims as volumes, in place of any of the same name.
func mount(set *appsv1.StatefulSet, p *corev1.Pod, n int) {
	for _, t := range set.Spec.VolumeClaimTemplates {
		v := corev1.Volume{Name: t.Name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claimName(set, &t, n)},
		}}
		p.Spec.Volumes = slices.DeleteFunc(p.Spec.Volumes, func(x corev1.Volume) bool { return x.Name == t.Name })
		p.Spec.Volumes = append(p.Spec.Volumes, v)
	}
}

func claimName(set *appsv1.StatefulSet, t *corev1.PersistentVolumeClaim, n int) string {
	return t.Name + "-" + podName(set, n)
}

// claims returns the volume claims of a number.
func claims(set *appsv1.StatefulSet, n int) []*corev1.PersistentVolumeClaim {
	var out []*corev1.PersistentVolumeClaim
	for i := range set.Spec.VolumeClaimTemplates {
		t := &set.Spec.VolumeClaimTemplates[i]
		c := t.DeepCopy()
		c.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: schema.ResourceOf(c).Kind}
		c.ObjectMeta = metav1.ObjectMeta{
			Namespace: set.Namespace, Name: claimName(set, t, n),
			Labels: maps.Clone(t.Labels), Annotations: maps.Clone(t.Annotations),
		}
		if c.Labels == nil {
			c.Labels = map[string]string{}
		}
		if set.Spec.Selector != nil {
			maps.Copy(c.Labels, set.Spec.Selector.MatchLabels)
		}
		c.Status = corev1.PersistentVolumeClaimStatus{}
		out = append(out, c)
	}
	return out
}
