package plan

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/defaults"
	"github.com/writ-os/writ/schema/merge"
)

// Manager is the field manager under which Git owns fields.
const Manager = "writ"

// change is one field that differs.
type change struct {
	path     fieldpath.Path
	old, new value.Value // nil where there is none
}

// decode makes the Go object of a manifest, with the defaults of its kind.
func (c *computation) decode(d *Desired) (schema.Object, error) {
	o := d.Resource.New()
	if err := json.Unmarshal(d.Fields, o); err != nil {
		return nil, fmt.Errorf("decode %s: %w", d.Object(), err)
	}
	o.GetObjectKind().SetGroupVersionKind(d.Resource.GVK())
	o.SetNamespace(d.Key.Namespace)
	o.SetName(d.Key.Name)
	complete(c.row(d.Resource), o)
	return o, nil
}

// row is a kind as the commit defines it: the cluster may still have the
// definition of before.
func (c *computation) row(r *schema.Resource) *schema.Resource {
	if r.Custom == nil || c.in.Rules == nil {
		return r
	}
	out := *r
	out.Custom = c.in.Rules(r)
	return &out
}

// comparison is how a live object differs from its manifest.
type comparison struct {
	changes []change
	// owned says whether Git is a manager of the live object at all; set are
	// the fields that it owns.
	owned bool
	set   *fieldpath.Set
	// fields is what is to be applied.
	fields []byte
	// undeclared is what others have set beside.
	undeclared []Undeclared
}

// complete gives an object the defaults of its kind.
func complete(r *schema.Resource, o schema.Object) {
	if u, ok := o.(*unstructured.Unstructured); ok && r.Custom != nil {
		r.Custom.Default(u.Object)
		return
	}
	defaults.Apply(o)
}

// inVersion brings a live object to the version that its manifest has: the
// store keeps one version of each kind.
func inVersion(r *schema.Resource, o schema.Object) (schema.Object, error) {
	if r.Convert == nil || o.GetObjectKind().GroupVersionKind() == r.GVK() {
		return o, nil
	}
	out, err := r.Convert(context.Background(), []schema.Object{o})
	if err != nil {
		return nil, fmt.Errorf("convert to %s: %w", r.APIVersion(), err)
	}
	return out[0], nil
}

// differences finds the declared fields that are different live, and those that
// Git owns and no longer declares.
//
// The values compared are those of the decoded objects with their defaults, so
// that "1000m" and "1" are one; which fields are compared is what the manifest
// itself says.
func (c *computation) differences(d *Desired, o, live schema.Object, rules []merge.Pointer) (comparison, error) {
	row := c.row(d.Resource)
	types := merge.Types(row)
	declared, err := declaredFields(types, d)
	if err != nil {
		return comparison{}, err
	}
	want, err := types.ObjectToTyped(likeClaims(o), typed.AllowDuplicates)
	if err != nil {
		return comparison{}, err
	}
	// An object that an older version has stored may lack defaults of this one.
	defaulted, err := inVersion(row, live.DeepCopyObject().(schema.Object))
	if err != nil {
		return comparison{}, err
	}
	if u, ok := defaulted.(*unstructured.Unstructured); ok && row.Custom != nil {
		row.Custom.Prune(u.Object) // the definition may have had more fields once; readers do not see them
	}
	complete(row, defaulted)
	have, err := types.ObjectToTyped(likeClaims(defaulted), typed.AllowDuplicates)
	if err != nil {
		return comparison{}, err
	}
	cmp, err := have.Compare(want)
	if err != nil {
		return comparison{}, err
	}
	differs := cmp.Modified.Union(cmp.Added).Union(cmp.Removed).Intersection(declared)
	set, owned, err := ownedFields(live)
	if err != nil {
		return comparison{}, err
	}
	var changes []change
	for p := range differs.Union(set.Difference(declared)).All() {
		if !differs.Has(p) && declaredBelow(declared, p) {
			continue // it was declared empty, and what is in it now is compared by itself
		}
		changes = appendChange(changes, p, lookup(have.AsValue(), p), lookup(want.AsValue(), p), !differs.Has(p))
	}
	more, err := undeclared(live, set.Union(declared), have.AsValue(), want.AsValue(), rules)
	if err != nil {
		return comparison{}, err
	}
	return comparison{changes: changes, owned: owned || declared.Difference(identity).Empty(), set: set, fields: d.Fields, undeclared: more}, nil
}

// likeClaims gives the claim templates of a StatefulSet the form that all have
// alike. A template is a whole claim, and the list of them one value to a merge:
// the kind and the status that the server writes into each, and the time of
// creation that tools print, are no change of it.
func likeClaims(o schema.Object) schema.Object {
	s, ok := o.(*appsv1.StatefulSet)
	if !ok || len(s.Spec.VolumeClaimTemplates) == 0 {
		return o
	}
	s = s.DeepCopy()
	for i := range s.Spec.VolumeClaimTemplates {
		t := &s.Spec.VolumeClaimTemplates[i]
		t.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"}
		t.Status, t.CreationTimestamp = corev1.PersistentVolumeClaimStatus{}, metav1.Time{}
	}
	return s
}

// declaredBelow says whether the manifest has fields below a path.
func declaredBelow(declared *fieldpath.Set, p fieldpath.Path) bool {
	for _, e := range p {
		declared = declared.WithPrefix(e)
	}
	return !declared.Empty()
}

// identity are the fields that say which object is meant; nobody owns them, and
// a manifest that has no others owns nothing.
var identity = fieldpath.NewSet(fieldpath.MakePathOrDie("apiVersion"), fieldpath.MakePathOrDie("kind"),
	fieldpath.MakePathOrDie("metadata", "name"), fieldpath.MakePathOrDie("metadata", "namespace"))

// appendChange adds a change unless a field above it has changed already.
func appendChange(changes []change, p fieldpath.Path, old, new value.Value, undeclared bool) []change {
	if n := len(changes); n > 0 && under(p, changes[n-1].path) || old == nil && new == nil {
		return changes
	}
	if hollow(old) && hollow(new) {
		return changes // the store keeps an empty list as none
	}
	if undeclared {
		if old == nil {
			return changes // already gone
		}
		if new != nil && value.Equals(old, new) {
			return changes // no longer declared, and the default is the same
		}
	}
	return append(changes, change{p.Copy(), old, new})
}

// hollow says whether a value is a list or a map without anything in it, or
// null, as which such a one may be written.
func hollow(v value.Value) bool {
	return v != nil && (v.IsNull() || v.IsList() && v.AsList().Length() == 0 || v.IsMap() && v.AsMap().Length() == 0)
}

func under(p, above fieldpath.Path) bool {
	return len(p) >= len(above) && p[:len(above)].Equals(above)
}

// declaredFields is the set of fields that the manifest itself has.
func declaredFields(types managedfields.TypeConverter, d *Desired) (*fieldpath.Set, error) {
	u := &unstructured.Unstructured{}
	if err := utiljson.Unmarshal(d.Fields, &u.Object); err != nil {
		return nil, err
	}
	u.SetGroupVersionKind(d.Resource.GVK())
	t, err := types.ObjectToTyped(u, typed.AllowDuplicates)
	if err != nil {
		return nil, err
	}
	return t.ToFieldSet()
}

// Owns says whether Git declares a field of a live object.
func Owns(live schema.Object, path ...any) bool {
	set, _, err := ownedFields(live)
	p, bad := fieldpath.MakePath(path...)
	return err == nil && bad == nil && set.Has(p)
}

// ownedFields is the set of fields that Git owns in a live object.
func ownedFields(live schema.Object) (set *fieldpath.Set, owned bool, err error) {
	set = fieldpath.NewSet()
	for _, m := range live.GetManagedFields() {
		if m.Manager != Manager || m.Operation != metav1.ManagedFieldsOperationApply || m.Subresource != "" || m.FieldsV1 == nil {
			continue
		}
		if err := set.FromJSON(bytes.NewReader(m.FieldsV1.GetRawBytes())); err != nil {
			return nil, false, fmt.Errorf("read managed fields: %w", err)
		}
		owned = true
	}
	return set, owned, nil
}

// lookup returns the value at a path; nil when there is none.
func lookup(v value.Value, p fieldpath.Path) value.Value {
	for _, e := range p {
		switch {
		case v == nil || v.IsNull():
			return nil
		case e.FieldName != nil:
			if !v.IsMap() {
				return nil
			}
			next, ok := v.AsMap().Get(*e.FieldName)
			if !ok {
				return nil
			}
			v = next
		default:
			v = element(v, e)
		}
	}
	return v
}

// element returns the item of a list that a path element names.
func element(v value.Value, e fieldpath.PathElement) value.Value {
	if !v.IsList() {
		return nil
	}
	l := v.AsList()
	for i := range l.Length() {
		item := l.At(i)
		switch {
		case e.Index != nil && *e.Index == i, e.Value != nil && value.Equals(*e.Value, item):
			return item
		case e.Key != nil && item.IsMap() && hasKey(item.AsMap(), *e.Key):
			return item
		}
	}
	return nil
}

// hasKey compares the fields of a list key. A field that the item leaves out
// counts as equal: it has the default that the key was made with.
func hasKey(m value.Map, key value.FieldList) bool {
	for _, f := range key {
		if v, ok := m.Get(f.Name); ok && !value.Equals(v, f.Value) {
			return false
		}
	}
	return true
}

func pathText(p fieldpath.Path) string { return strings.TrimPrefix(p.String(), ".") }
