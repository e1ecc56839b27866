package admission

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller/quota"
	"github.com/writ-os/writ/controlplane/registry"
	"github.com/writ-os/writ/schema"
)

// AlwaysPull makes every container pull its image, so that a pod gets only
// images for which it has credentials, even where the node has them.
type AlwaysPull struct{}

var _ registry.Admission = (*AlwaysPull)(nil)

// Handles implements registry.Handler.
func (*AlwaysPull) Handles(verb string, r *schema.Resource, sub string) bool {
	return verb != "delete" && verb != "connect" && sub == "" && is(r, "", "pods")
}

// Mutate implements registry.Admission.
func (*AlwaysPull) Mutate(_ context.Context, a *registry.Attributes) error {
	pod, ok := a.Object.(*corev1.Pod)
	if !ok || sameImages(a, pod) {
		return nil
	}
	for c := range containers(&pod.Spec) {
		c.policy(corev1.PullAlways)
	}
	for i := range pod.Spec.Volumes {
		if image := pod.Spec.Volumes[i].Image; image != nil {
			image.PullPolicy = corev1.PullAlways
		}
	}
	return nil
}

// Validate implements registry.Admission.
func (*AlwaysPull) Validate(_ context.Context, a *registry.Attributes) error {
	pod, ok := a.Object.(*corev1.Pod)
	if !ok || sameImages(a, pod) {
		return nil
	}
	var errs []error
	for c := range containers(&pod.Spec) {
		if *c.pull != corev1.PullAlways {
			errs = append(errs, forbidden(a, field.NotSupported(c.path.Child("imagePullPolicy"), *c.pull, []corev1.PullPolicy{corev1.PullAlways})))
		}
	}
	for i, v := range pod.Spec.Volumes {
		if v.Image != nil && v.Image.PullPolicy != corev1.PullAlways {
			path := field.NewPath("spec", "volumes").Index(i).Child("image", "pullPolicy")
			errs = append(errs, forbidden(a, field.NotSupported(path, v.Image.PullPolicy, []corev1.PullPolicy{corev1.PullAlways})))
		}
	}
	return utilerrors.NewAggregate(errs)
}

func sameImages(a *registry.Attributes, pod *corev1.Pod) bool {
	old, ok := a.Old.(*corev1.Pod)
	if !ok {
		return false
	}
	images := map[string]bool{}
	for c := range containers(&old.Spec) {
		images[*c.image] = true
	}
	for c := range containers(&pod.Spec) {
		if !images[*c.image] {
			return false
		}
	}
	return true
}

// container is what is the same of all sorts of containers.
type container struct {
	path  *field.Path
	image *string
	pull  *corev1.PullPolicy
}

func (c container) policy(p corev1.PullPolicy) { *c.pull = p }

// containers are all containers of a pod, in upstream's order.
func containers(spec *corev1.PodSpec) func(func(container) bool) {
	return func(yield func(container) bool) {
		for i := range spec.InitContainers {
			c := &spec.InitContainers[i]
			if !yield(container{field.NewPath("spec", "initContainers").Index(i), &c.Image, &c.ImagePullPolicy}) {
				return
			}
		}
		for i := range spec.Containers {
			c := &spec.Containers[i]
			if !yield(container{field.NewPath("spec", "containers").Index(i), &c.Image, &c.ImagePullPolicy}) {
				return
			}
		}
		for i := range spec.EphemeralContainers {
			c := &spec.EphemeralContainers[i]
			if !yield(container{field.NewPath("spec", "ephemeralContainers").Index(i), &c.Image, &c.ImagePullPolicy}) {
				return
			}
		}
	}
}

// ExtendedToleration lets pods that ask for a device onto the nodes that are
// kept for it by a taint of the same name.
type ExtendedToleration struct{ mutates }

var _ registry.Admission = (*ExtendedToleration)(nil)

// Handles implements registry.Handler.
func (*ExtendedToleration) Handles(verb string, r *schema.Resource, sub string) bool {
	return (verb == "create" || verb == "update") && sub == "" && is(r, "", "pods")
}

// Mutate implements registry.Admission.
func (*ExtendedToleration) Mutate(_ context.Context, a *registry.Attributes) error {
	pod, ok := a.Object.(*corev1.Pod)
	if !ok {
		return nil
	}
	names := map[string]bool{}
	for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for _, c := range list {
			for n := range c.Resources.Requests {
				if quota.Extended(n) {
					names[string(n)] = true
				}
			}
		}
	}
	for _, n := range slices.Sorted(maps.Keys(names)) {
		t := corev1.Toleration{Key: n, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}
		if i := slices.IndexFunc(pod.Spec.Tolerations, func(have corev1.Toleration) bool { return t.MatchToleration(&have) }); i >= 0 {
			pod.Spec.Tolerations[i] = t
			continue
		}
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, t)
	}
	return nil
}

// RuntimeClass gives a pod the overhead of its runtime class, and keeps it to
// the nodes that have it.
type RuntimeClass struct{}

var _ registry.Admission = (*RuntimeClass)(nil)

// Handles implements registry.Handler.
func (*RuntimeClass) Handles(verb string, r *schema.Resource, sub string) bool {
	return verb == "create" && sub == "" && is(r, "", "pods")
}

// runtimeClass returns the class that a pod names; nil when it names none.
func runtimeClass(a *registry.Attributes, pod *corev1.Pod) (*nodev1.RuntimeClass, error) {
	name := pod.Spec.RuntimeClassName
	if name == nil {
		return nil, nil
	}
	class, ok := client.Cached[*nodev1.RuntimeClass](a.Cluster, schema.Key{Name: *name})
	if !ok {
		return nil, forbidden(a, fmt.Errorf("pod rejected: RuntimeClass %q not found", *name))
	}
	return class, nil
}

// Mutate implements registry.Admission.
func (*RuntimeClass) Mutate(_ context.Context, a *registry.Attributes) error {
	pod, ok := a.Object.(*corev1.Pod)
	if !ok {
		return nil
	}
	class, err := runtimeClass(a, pod)
	if err != nil || class == nil {
		return err
	}
	if o := class.Overhead; o != nil {
		if len(pod.Spec.Overhead) > 0 && !equality.Semantic.DeepEqual(o.PodFixed, pod.Spec.Overhead) {
			return forbidden(a, errOverhead)
		}
		pod.Spec.Overhead = o.DeepCopy().PodFixed
	}
	s := class.Scheduling
	if s == nil {
		return nil
	}
	for _, k := range slices.Sorted(maps.Keys(s.NodeSelector)) {
		v := s.NodeSelector[k]
		if have, ok := pod.Spec.NodeSelector[k]; ok && have != v {
			return forbidden(a, fmt.Errorf("conflict: runtimeClass.scheduling.nodeSelector[%s] = %s; pod.spec.nodeSelector[%s] = %s", k, v, k, have))
		}
	}
	if len(s.NodeSelector) > 0 && pod.Spec.NodeSelector == nil {
		pod.Spec.NodeSelector = map[string]string{}
	}
	maps.Copy(pod.Spec.NodeSelector, s.NodeSelector)
	pod.Spec.Tolerations = mergeTolerations(pod.Spec.Tolerations, s.DeepCopy().Tolerations)
	return nil
}

var errOverhead = errors.New("pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")

// Validate implements registry.Admission.
func (*RuntimeClass) Validate(_ context.Context, a *registry.Attributes) error {
	pod, ok := a.Object.(*corev1.Pod)
	if !ok {
		return nil
	}
	class, err := runtimeClass(a, pod)
	switch {
	case err != nil:
		return err
	case class != nil && class.Overhead != nil:
		if !equality.Semantic.DeepEqual(class.Overhead.PodFixed, pod.Spec.Overhead) {
			return forbidden(a, errOverhead)
		}
	case pod.Spec.Overhead != nil:
		return forbidden(a, errors.New("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"))
	}
	return nil
}

// AntiAffinity lets pods keep others away from their own node only: the default
// of upstream is off.
type AntiAffinity struct{ validates }

var _ registry.Admission = (*AntiAffinity)(nil)

// Handles implements registry.Handler.
func (*AntiAffinity) Handles(verb string, r *schema.Resource, sub string) bool {
	return (verb == "create" || verb == "update") && sub == "" && is(r, "", "pods")
}

// Validate implements registry.Admission.
func (*AntiAffinity) Validate(_ context.Context, a *registry.Attributes) error {
	pod, ok := a.Object.(*corev1.Pod)
	if !ok || pod.Spec.Affinity == nil || pod.Spec.Affinity.PodAntiAffinity == nil {
		return nil
	}
	for _, t := range pod.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
		if t.TopologyKey != corev1.LabelHostname {
			return forbidden(a, fmt.Errorf("affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey %v but only key %v is allowed", t.TopologyKey, corev1.LabelHostname))
		}
	}
	return nil
}
