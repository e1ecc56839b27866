package table

import (
	"reflect"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/writ-os/writ/controlplane/apiserver/fieldpath"
	"github.com/writ-os/writ/schema"
)

// Columns that say the same of every kind.
var _ = register(map[string]func(*Row) any{
	"age": func(r *Row) any { return r.since(r.Object.GetCreationTimestamp()) },
	"createdAt": func(r *Row) any {
		return r.Object.GetCreationTimestamp().UTC().Format(time.RFC3339)
	},
	"controllerOf":    func(r *Row) any { return controllerOf(r.Object) },
	"nameWithDefault": func(r *Row) any { return nameWithDefault(r.Object) },
	"readyCondition":  func(r *Row) any { return readyCondition(r.Object) },
})

func controllerOf(o metav1.Object) string {
	ref := metav1.GetControllerOfNoCopy(o)
	if ref == nil {
		return none
	}
	gv, err := kschema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return unknown
	}
	gk := kschema.GroupKind{Group: gv.Group, Kind: ref.Kind}
	return strings.ToLower(gk.String()) + "/" + ref.Name
}

func nameWithDefault(o metav1.Object) string {
	for _, key := range []string{
		"storageclass.kubernetes.io/is-default-class",
		"storageclass.beta.kubernetes.io/is-default-class",
		"ingressclass.kubernetes.io/is-default-class",
	} {
		if o.GetAnnotations()[key] == "true" {
			return o.GetName() + " (default)"
		}
	}
	return o.GetName()
}

// readyCondition finds the condition Ready of status.conditions in any kind
// whose conditions are metav1.Condition.
func readyCondition(o schema.Object) string {
	p, err := fieldpath.Compile(reflect.New(reflect.TypeOf(o).Elem()).Interface(), "status.conditions")
	if err != nil {
		return ""
	}
	v, ok := p.Value(o)
	if !ok {
		return ""
	}
	conditions, _ := v.Interface().([]metav1.Condition)
	for _, c := range conditions {
		if c.Type == "Ready" {
			return string(c.Status)
		}
	}
	return ""
}
