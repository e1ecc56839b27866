package validate

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/pod-security-admission/api"

	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/defaults"
	"github.com/writ-os/writ/schema/podstandard"
	"github.com/writ-os/writ/schema/support"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// RulePodSecurity is the rule of findings about pods that their namespace
// refuses, and the name by which a manifest accepts them.
const RulePodSecurity = "PodSecurity"

// Insecure is one field by which the pods of an object break a level of Pod
// Security.
type Insecure struct {
	Check string // upstream's name of it
	// Finding has the place; its message is the reason alone, and has to be
	// completed by who knows the namespace.
	Finding v1alpha1.Finding
}

// MakesPods says whether an object is a pod or has a template of pods.
func MakesPods(o schema.Object) bool {
	_, spec, _ := podsOf(o)
	return spec != nil
}

// podsOf returns the pod that an object is, or those that it makes, and where
// their spec is; nil of another object.
func podsOf(o schema.Object) (*metav1.ObjectMeta, *corev1.PodSpec, *field.Path) {
	if p, ok := o.(*corev1.Pod); ok {
		return &p.ObjectMeta, &p.Spec, field.NewPath("spec")
	}
	if o == nil {
		return nil, nil, nil
	}
	if t, at := support.TemplateOf(o); t != nil {
		return &t.ObjectMeta, &t.Spec, at.Child("spec")
	}
	return nil, nil, nil
}

// Security says by which fields the pods of a manifest break a level. o is what
// Decode has made of it.
func Security(m *render.Manifest, o schema.Object, j *podstandard.Judge, lv api.LevelVersion) (out []Insecure) {
	if MakesPods(o) {
		defaults.Apply(o)
	}
	meta, spec, at := podsOf(o)
	if spec == nil || j.ExemptRuntime(spec.RuntimeClassName) {
		return nil
	}
	for _, v := range j.Violations(lv, meta, spec) {
		path := at.String()
		if v.Path != nil {
			path += "." + v.Path.String()
		}
		f := v1alpha1.Finding{Field: path, Rule: RulePodSecurity, Message: v.Text()}
		locate(&f, m)
		out = append(out, Insecure{v.Check, f})
	}
	return out
}

// BrokenChecks are the checks of a level that the pods of an object break.
func BrokenChecks(o schema.Object, j *podstandard.Judge, lv api.LevelVersion) map[string]bool {
	meta, spec, _ := podsOf(o)
	if spec == nil {
		return nil
	}
	out := map[string]bool{}
	for _, v := range j.Violations(lv, meta, spec) {
		out[v.Check] = true
	}
	return out
}
