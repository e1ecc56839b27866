package core

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/writ-os/writ/schema"
)

// TemplateChangeWarnings are those of a kind that makes pods by a template. named says
// that they are named after it.
func TemplateChangeWarnings(named bool, of func(schema.Object) *corev1.PodTemplateSpec) func(o, old schema.Object) []string {
	update := Changed(func(o schema.Object) []string { return TemplateWarnings(of(o), TemplatePath) })
	return func(o, old schema.Object) []string {
		texts := update(o, old)
		if old == nil && named {
			texts = append(NameWarnings(o, "Pod names and hostnames"), texts...)
		}
		return texts
	}
}

// TemplatePath is where workloads have the template of their pods.
var TemplatePath = field.NewPath("spec", "template")

// Changed warns of new objects, and of updates that count as a change.
func Changed(texts func(schema.Object) []string) func(o, old schema.Object) []string {
	return func(o, old schema.Object) []string {
		if old != nil && o.GetGeneration() == old.GetGeneration() {
			return nil
		}
		return texts(o)
	}
}

// NameWarnings: pods are named after it, and their hosts after them.
func NameWarnings(o schema.Object, in string) []string {
	if texts := validation.IsDNS1123Label(o.GetName()); len(texts) > 0 {
		return []string{fmt.Sprintf("metadata.name: this is used in %s, which can result in surprising behavior; a DNS label is recommended: %v", in, texts)}
	}
	return nil
}
