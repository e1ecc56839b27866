package registry

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/kind"
	"github.com/writ-os/writ/schema/kind/valid"
	"github.com/writ-os/writ/schema/v1alpha1"
	"github.com/writ-os/writ/schema/validate"
)

// validateCreate checks a new object. The rules of the kind come first: their
// texts are upstream's.
func (g *Registry) validateCreate(ctx context.Context, w *write, o schema.Object) error {
	errs := w.rule.CreateErrors(w.r, o)
	if u, ok := o.(*unstructured.Unstructured); ok && w.r.Custom != nil {
		return invalid(w.r, o.GetName(), append(errs, w.r.Custom.Validate(ctx, u, nil)...))
	}
	return invalid(w.r, o.GetName(), unsupported(w.withSchema(errs, o), o, nil))
}

// validateUpdate checks a change.
func (g *Registry) validateUpdate(ctx context.Context, w *write, o, old schema.Object) error {
	errs := plainNames.MetaErrors(w.r, o)
	changed := metaUpdateErrors(o, old)
	errs = append(append(errs, changed...), changed...) // upstream asks twice: for all kinds, and for each
	if u, ok := o.(*unstructured.Unstructured); ok && w.r.Custom != nil {
		return invalid(w.r, o.GetName(), append(errs, customErrors(ctx, w.r, w.sub, u, old.(*unstructured.Unstructured))...))
	}
	if w.sub == "" || w.sub == "scale" { // other doors let nothing else through
		if w.rule.Validate != nil {
			errs = append(errs, w.rule.Validate(o)...)
		}
		if !w.rule.OwnImmutable {
			errs = append(errs, immutableErrors(w.r, o, old)...)
		}
		if w.rule.ValidateUpdate != nil {
			errs = append(errs, w.rule.ValidateUpdate(o, old)...)
		}
	}
	if w.sub != "" && w.rule.ValidateDoor != nil {
		errs = append(errs, w.rule.ValidateDoor(w.sub, o, old)...)
	}
	errs = w.withSchema(errs, o)
	if w.sub != "status" { // which says what is, and asks for nothing
		errs = unsupported(errs, o, old)
	}
	return invalid(w.r, o.GetName(), errs)
}

// plainNames does not check the name: an update cannot change it.
var plainNames = &kind.Kind{Name: valid.PathSegment}

func metaUpdateErrors(o, old metav1.Object) field.ErrorList {
	errs := validation.ValidateObjectMetaAccessorUpdate(o, old, field.NewPath("metadata"))
	if old.GetResourceVersion() != "" {
		return errs
	}
	// It was created in the same transaction and has no version yet.
	return slices.DeleteFunc(errs, func(e *field.Error) bool { return e.Field == "metadata.resourceVersion" })
}

// invalidVersion refuses an update without resourceVersion of a kind that
// demands one.
func invalidVersion(r *schema.Resource, name string) error {
	// Upstream names the resource where the kind should be.
	return apierrors.NewInvalid(kschema.GroupKind{Group: r.Group, Kind: r.Plural}, name, field.ErrorList{
		field.Invalid(field.NewPath("metadata").Child("resourceVersion"), 0, "must be specified for an update"),
	})
}

// immutableErrors finds the fields of the resource table that have changed
// although they had been set.
func immutableErrors(r *schema.Resource, o, old schema.Object) field.ErrorList {
	var errs field.ErrorList
	for _, p := range r.Immutable {
		was, is := jsonPath(old, p), jsonPath(o, p)
		if !was.IsValid() || was.IsZero() {
			continue
		}
		var value any
		if is.IsValid() {
			value = is.Interface()
		} else {
			value = reflect.Zero(was.Type()).Interface()
		}
		if !apiequality.Semantic.DeepEqual(was.Interface(), value) {
			errs = append(errs, field.Invalid(fieldPath(p), value, valid.Immutable))
		}
	}
	return errs
}

func fieldPath(p string) *field.Path {
	first, rest, more := strings.Cut(p, ".")
	if !more {
		return field.NewPath(first)
	}
	return field.NewPath(first, strings.Split(rest, ".")...)
}

// trusted says whether a user is a part of this process, whose objects are made
// by code that is tested against the schema. The reconciler is none: what it
// writes was made by people.
func trusted(u user.Info) bool {
	return inProcess(u) && u.GetName() != "system:writ:reconciler"
}

func inProcess(u user.Info) bool {
	_, part := u.(client.Component)
	return part
}

// withSchema adds what the definition of the kind says against an object to
// what the rules say. Both may know a constraint: of two errors about a field
// the first stays, and one about no field stays only when it is alone.
func (w *write) withSchema(errs field.ErrorList, o schema.Object) field.ErrorList {
	if trusted(w.user) || w.rule.OwnSchema {
		return errs
	}
	seen := map[string]bool{}
	for _, e := range errs {
		seen[e.Field] = true
	}
	for _, e := range w.schemaErrors(o) {
		if strings.HasPrefix(e.Field, "metadata.") || strings.HasPrefix(e.Field, "status.") && w.keepsStatus() {
			continue // Kubernetes' own code has checked it, or it is not of this write
		}
		if seen[e.Field] || e.Field == "" && len(errs) > 0 || !strings.HasPrefix(e.Field, w.rule.SchemaBelow) {
			continue
		}
		errs = append(errs, e)
	}
	return errs
}

// keepsStatus says that a write leaves the status as it is.
func (w *write) keepsStatus() bool { return w.sub == "" && w.r.Status && !w.rule.KeepsStatus }

// schemaErrors holds an object against the definition of its kind.
func (w *write) schemaErrors(o schema.Object) field.ErrorList {
	if v, ok := decoded(o); ok && validate.Accepts(w.r, v) {
		return nil
	}
	data, err := json.Marshal(o)
	if err != nil {
		return field.ErrorList{field.InternalError(nil, fmt.Errorf("encode %s: %w", w.r.Kind, err))}
	}
	var errs field.ErrorList
	for _, f := range validate.JSON(w.r, data) {
		errs = append(errs, findingError(f, data))
	}
	return errs
}

// decoded is an object of a Go type as its JSON would be decoded, without
// managedFields: the server writes them, and they are longer than all the rest.
func decoded(o schema.Object) (map[string]any, bool) {
	v := reflect.ValueOf(o)
	if _, ok := o.(*unstructured.Unstructured); ok || v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct {
		return nil, false
	}
	own := reflect.New(v.Type().Elem())
	own.Elem().Set(v.Elem())
	bare := own.Interface().(schema.Object)
	bare.SetManagedFields(nil) // of the copy: what it holds is shared
	m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(bare)
	return m, err == nil
}

// findingError says a finding in the words of the API.
func findingError(f v1alpha1.Finding, data []byte) *field.Error {
	// The path of the field is in the text of the error already.
	detail := strings.TrimPrefix(f.Message, f.Field+": ")
	if f.Hint != "" {
		detail += " (" + f.Hint + ")"
	}
	e := &field.Error{Type: field.ErrorTypeInvalid, Field: f.Field, Detail: detail}
	switch f.Rule {
	case "Required":
		e.Type = field.ErrorTypeRequired
	case "Forbidden", "UnknownField":
		e.Type = field.ErrorTypeForbidden
	case "TooLong":
		e.Type = field.ErrorTypeTooLong
	default:
		e.BadValue = valueOf(data, f.Field)
	}
	return e
}

// valueOf finds the value of "spec.ports[0].port" in JSON, for the message.
func valueOf(data []byte, p string) any {
	var v any
	if json.Unmarshal(data, &v) != nil {
		return nil
	}
	for _, name := range strings.FieldsFunc(p, func(c rune) bool { return c == '.' || c == '[' || c == ']' }) {
		switch t := v.(type) {
		case map[string]any:
			v = t[strings.Trim(name, `"`)]
		case []any:
			var i int
			if _, err := fmt.Sscanf(name, "%d", &i); err != nil || i < 0 || i >= len(t) {
				return nil
			}
			v = t[i]
		default:
			return nil
		}
	}
	return v
}
