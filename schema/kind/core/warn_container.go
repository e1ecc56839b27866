package core

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// each visits the containers of all sorts, in upstream's order.
func (w *warner) each(visit func(c *corev1.Container, at *field.Path)) {
	at := w.at.Child("spec")
	for i := range w.spec.InitContainers {
		visit(&w.spec.InitContainers[i], at.Child("initContainers").Index(i))
	}
	for i := range w.spec.Containers {
		visit(&w.spec.Containers[i], at.Child("containers").Index(i))
	}
	for i := range w.spec.EphemeralContainers {
		c := corev1.Container(w.spec.EphemeralContainers[i].EphemeralContainerCommon)
		visit(&c, at.Child("ephemeralContainers").Index(i))
	}
}

func (w *warner) containers() {
	s := w.spec.SecurityContext
	if s == nil || s.SeccompProfile == nil {
		w.seccomp(corev1.SeccompPodAnnotationKey)
	}
	w.each(func(c *corev1.Container, at *field.Path) {
		if c.SecurityContext == nil || c.SecurityContext.SeccompProfile == nil {
			w.seccomp(corev1.SeccompContainerAnnotationKeyPrefix + c.Name)
		}
		w.appArmor(c)
		w.whole(c.Resources.Limits, corev1.ResourceMemory, at.Child("resources", "limits"))
		w.whole(c.Resources.Requests, corev1.ResourceMemory, at.Child("resources", "requests"))
		w.whole(c.Resources.Limits, corev1.ResourceEphemeralStorage, at.Child("resources", "limits"))
		w.whole(c.Resources.Requests, corev1.ResourceEphemeralStorage, at.Child("resources", "requests"))
		w.hidden(c.Env, at.Child("env"))
	})
	w.ports()
	w.portNames()
}

func (w *warner) seccomp(key string) {
	if _, ok := w.meta.Annotations[key]; ok {
		w.say(w.at.Child("metadata", "annotations").Key(key), `non-functional in v1.27+; use the "seccompProfile" field instead`)
	}
}

// appArmor: templates only. A pod gets the fields that its annotations mean.
func (w *warner) appArmor(c *corev1.Container) {
	if w.at == nil || c.SecurityContext != nil && c.SecurityContext.AppArmorProfile != nil {
		return
	}
	key := corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix + c.Name
	value, ok := w.meta.Annotations[key]
	if !ok {
		return
	}
	if s := w.spec.SecurityContext; s == nil || s.AppArmorProfile == nil || !apiequality.Semantic.DeepEqual(s.AppArmorProfile, appArmorOf(value)) {
		w.say(w.at.Child("metadata", "annotations").Key(key), `deprecated since v1.30; use the "appArmorProfile" field instead`)
	}
}

// appArmorOf is the profile that the value of an annotation means; nil for one
// that means nothing.
func appArmorOf(value string) *corev1.AppArmorProfile {
	switch value {
	case corev1.DeprecatedAppArmorBetaProfileNameUnconfined:
		return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}
	case corev1.DeprecatedAppArmorBetaProfileRuntimeDefault:
		return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeRuntimeDefault}
	}
	if name, ok := strings.CutPrefix(value, corev1.DeprecatedAppArmorBetaProfileNamePrefix); ok && name != "" {
		return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeLocalhost, LocalhostProfile: &name}
	}
	return nil
}

// hidden: a variable that is set again, and not from what it was.
func (w *warner) hidden(env []corev1.EnvVar, at *field.Path) {
	if len(env) < 2 {
		return
	}
	seen := map[string]bool{}
	for i, e := range env {
		ref := "$(" + e.Name + ")"
		if seen[e.Name] && (e.ValueFrom != nil || e.Value == ref || !strings.Contains(e.Value, ref)) {
			w.say(at.Index(i), "hides previous definition of %q, which may be dropped when using apply", e.Name)
		}
		seen[e.Name] = true
	}
}

type portAt struct {
	corev1.ContainerPort
	at *field.Path
}

func (w *warner) ports() {
	all := map[string][]portAt{}
	w.each(func(c *corev1.Container, at *field.Path) {
		for i, p := range c.Ports {
			at := at.Child("ports").Index(i)
			if p.HostIP != "" && p.HostPort == 0 {
				w.say(at, "hostIP set without hostPort: %+v", p)
			}
			k := strconv.Itoa(int(p.ContainerPort)) + "/" + string(p.Protocol)
			for _, o := range all[k] {
				w.overlap(p, o, at)
			}
			all[k] = append(all[k], portAt{p, at})
		}
	})
}

func (w *warner) overlap(p corev1.ContainerPort, o portAt, at *field.Path) {
	switch {
	case p.HostIP == o.HostIP && p.HostPort == o.HostPort:
		w.say(at, "duplicate port definition with %s", o.at)
	case p.HostPort == 0 || o.HostPort == 0:
		w.say(at, "overlapping port definition with %s", o.at)
	case p.HostPort == o.HostPort && (p.HostIP == "") != (o.HostIP == ""):
		w.say(at, "dangerously ambiguous port definition with %s", o.at)
	}
}

func (w *warner) portNames() {
	first := map[string]*field.Path{}
	w.each(func(c *corev1.Container, at *field.Path) {
		for i, p := range c.Ports {
			at := at.Child("ports").Index(i)
			switch o := first[p.Name]; {
			case p.Name == "":
			case o != nil:
				w.say(at, "duplicate port name %q with %s, services and probes that select ports by name will use %s", p.Name, o, o)
			default:
				first[p.Name] = at
			}
		}
	})
}
