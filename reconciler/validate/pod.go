package validate

import (
	"fmt"
	"slices"

	"github.com/distribution/reference"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/defaults"
	"github.com/writ-os/writ/schema/kind/core"
	"github.com/writ-os/writ/schema/podstandard"
)

// withClaims is the template of the pods of an object as they are made: those of
// a StatefulSet have its claims as volumes, in place of any of that name.
func withClaims(o schema.Object, t *corev1.PodTemplateSpec) *corev1.PodTemplateSpec {
	set, ok := o.(*appsv1.StatefulSet)
	if !ok || len(set.Spec.VolumeClaimTemplates) == 0 {
		return t
	}
	out := *t
	out.Spec.Volumes = slices.Clone(t.Spec.Volumes)
	for i := range set.Spec.VolumeClaimTemplates {
		name := set.Spec.VolumeClaimTemplates[i].Name
		if !slices.ContainsFunc(t.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == name }) {
			out.Spec.Volumes = append(out.Spec.Volumes, corev1.Volume{Name: name,
				VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}})
		}
	}
	return &out
}

// podErrors are what the API takes of a pod or a template of pods, and nothing
// can run, or no commit can apply.
func podErrors(o schema.Object) field.ErrorList {
	_, spec, at := podsOf(o)
	if spec == nil {
		return nil
	}
	errs := containerErrors(spec, at)
	if set, ok := o.(*appsv1.StatefulSet); ok { // whose template the API leaves to the pods
		set = set.DeepCopy()
		defaults.Apply(set)
		errs = append(errs, core.TemplateErrors(withClaims(set, &set.Spec.Template), field.NewPath("spec", "template"))...)
	}
	return errs
}

// spaceErrors are what admission has against the labels of a namespace: a level
// of Pod Security that nobody knows enforces the strictest one.
func spaceErrors(o schema.Object) field.ErrorList {
	if ns, ok := o.(*corev1.Namespace); ok {
		return podstandard.LabelErrors(ns.Labels)
	}
	return nil
}

// containerErrors find what cannot start.
func containerErrors(s *corev1.PodSpec, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range s.InitContainers {
		errs = append(errs, containerError(&s.InitContainers[i], at.Child("initContainers").Index(i))...)
	}
	for i := range s.Containers {
		errs = append(errs, containerError(&s.Containers[i], at.Child("containers").Index(i))...)
	}
	return errs
}

func containerError(c *corev1.Container, at *field.Path) (errs field.ErrorList) {
	if c.Image != "" {
		if _, err := reference.ParseNormalizedNamed(c.Image); err != nil {
			errs = append(errs, field.Invalid(at.Child("image"), c.Image, fmt.Sprintf("no image can have this name: %v", err)))
		}
	}
	// The commit is applied by names: of two of a name it would be unclear which is meant.
	names := map[string]bool{}
	for i, e := range c.Env {
		if names[e.Name] && e.Name != "" {
			errs = append(errs, field.Duplicate(at.Child("env").Index(i).Child("name"), e.Name))
		}
		names[e.Name] = true
	}
	ports := map[string]bool{}
	for i, p := range c.Ports {
		key := fmt.Sprintf("%d/%s", p.ContainerPort, p.Protocol)
		if p.Protocol == "" {
			key = fmt.Sprintf("%d/%s", p.ContainerPort, corev1.ProtocolTCP)
		}
		if ports[key] {
			errs = append(errs, field.Duplicate(at.Child("ports").Index(i).Child("containerPort"), key))
		}
		ports[key] = true
	}
	for name, p := range map[string]*corev1.Probe{"livenessProbe": c.LivenessProbe, "readinessProbe": c.ReadinessProbe, "startupProbe": c.StartupProbe} {
		if p != nil {
			errs = append(errs, portErrors(c, p.HTTPGet, p.TCPSocket, at.Child(name))...)
		}
	}
	if l := c.Lifecycle; l != nil {
		for name, h := range map[string]*corev1.LifecycleHandler{"postStart": l.PostStart, "preStop": l.PreStop} {
			if h != nil {
				errs = append(errs, portErrors(c, h.HTTPGet, nil, at.Child("lifecycle", name))...)
			}
		}
	}
	return errs
}

// portErrors wants ports that are named to be those of the container.
func portErrors(c *corev1.Container, get *corev1.HTTPGetAction, tcp *corev1.TCPSocketAction, at *field.Path) (errs field.ErrorList) {
	check := func(port intstr.IntOrString, at *field.Path) {
		if port.Type != intstr.String || port.StrVal == "" {
			return
		}
		for _, p := range c.Ports {
			if p.Name == port.StrVal {
				return
			}
		}
		errs = append(errs, field.Invalid(at, port.StrVal, fmt.Sprintf("the container %s has no port of this name, so the probe could never succeed", c.Name)))
	}
	if get != nil {
		check(get.Port, at.Child("httpGet", "port"))
	}
	if tcp != nil {
		check(tcp.Port, at.Child("tcpSocket", "port"))
	}
	return errs
}
