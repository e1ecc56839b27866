package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// taken is a live object that Kubernetes deletes because of an op.
type taken struct {
	ref render.Ref
	obj schema.Object
	by  int // the op
}

// along says what goes with the objects that are deleted: the contents of a
// Namespace, the objects of a CustomResourceDefinition, and what the garbage
// collector deletes after its last owner. It is named, held against the
// deletion budget, and what is protected refuses the commit. A Live that
// cannot list says nothing of it.
func (c *computation) along() {
	live, ok := c.in.Live.(lister)
	if !ok {
		return
	}
	byOp := map[int][]taken{}
	for _, t := range takenAlong(c.plan.Ops, c.in.Live, listOf(live, c.in.Kinds)) {
		byOp[t.by] = append(byOp[t.by], t)
	}
	for _, i := range slices.Sorted(maps.Keys(byOp)) {
		op := &c.plan.Ops[i]
		c.consequence(op.Ref, "TakesAlong", "takes along: "+counted(byOp[i]))
		for _, t := range byOp[i] {
			c.goes(op, t)
		}
	}
}

// goes decides about one object that goes with another.
func (c *computation) goes(op *Op, t taken) {
	holds, _ := holder(op.Ref)
	add := func(rule, message, hint string) {
		c.find(render.Head{Ref: op.Ref, File: op.File, Line: op.Line, Column: op.Column}, "", rule, message, hint)
	}
	switch annotations := t.obj.GetAnnotations(); {
	case protected(t.obj):
		add("Protected", fmt.Sprintf("%s would be deleted along with %s and is protected", t.ref, op.Ref),
			"keep what it goes along with, or remove its annotation "+v1alpha1.ProtectAnnotation+" first")
	case op.Action == Delete && pruneDisabled(annotations):
		add("Protected", fmt.Sprintf("%s would be deleted along with %s, and its annotations say that it stays", t.ref, op.Ref),
			"keep what it goes along with, or remove its annotation "+v1alpha1.PruneAnnotation+" first")
	case op.Action == Delete && holds == nil && c.declares(t.ref):
		add("InUse", fmt.Sprintf("%s is declared, and would be deleted along with its owner %s, which is not any more", t.ref, op.Ref),
			"keep the owner, or remove the object too")
	}
	if !remade(t) {
		c.alongside++
	}
	if claim, ok := t.obj.(*corev1.PersistentVolumeClaim); ok {
		c.consequence(t.ref, "DataLoss", fmt.Sprintf("goes along with %s: %s", op.Ref, dataOf(claim, c.in.Live)))
	}
}

// dataOf says what becomes of the data of a claim that is deleted.
func dataOf(claim *corev1.PersistentVolumeClaim, live Live) string {
	o, ok := live.Get(schema.ResourceFor[*corev1.PersistentVolume](), schema.Key{Name: claim.Spec.VolumeName})
	switch volume, _ := o.(*corev1.PersistentVolume); {
	case claim.Spec.VolumeName == "":
		return "it has no volume yet"
	case ok && volume.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain:
		return "the data stays in the PersistentVolume " + volume.Name + " (reclaim policy Retain)"
	case ok && volume.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete:
		return "its data is deleted (reclaim policy Delete)"
	}
	return "the data of its volume may be lost"
}

// takenAlong finds what goes with the objects of ops that delete or replace.
// list returns all live objects that a namespace has, or, for "", all there
// are.
func takenAlong(ops []Op, live Live, list func(namespace string) []taken) []taken {
	gone, by, scopes := map[render.Ref]bool{}, map[types.UID]int{}, map[string]bool{}
	type held struct {
		holds func(*schema.Resource, schema.Key) bool
		op    int
	}
	var holders []held
	for i := range ops {
		if ops[i].Action != Delete && ops[i].Action != Replace {
			continue
		}
		ref := ops[i].Ref
		gone[ref] = true
		if !owns(ref.Resource) {
			continue
		}
		if o, ok := live.Get(ref.Resource, ref.Key); ok && o.GetUID() != "" {
			by[o.GetUID()] = i
		}
		scope := ref.Key.Namespace
		if holds, _ := holder(ref); holds != nil {
			holders = append(holders, held{holds, i})
			if ref.Resource.Kind == "Namespace" {
				scope = ref.Key.Name
			}
		}
		scopes[scope] = true
	}
	if scopes[""] { // what is in no namespace may own objects everywhere
		scopes = map[string]bool{"": true}
	}
	var rest, out []taken
	for _, scope := range slices.Sorted(maps.Keys(scopes)) {
		for _, t := range list(scope) {
			if !gone[t.ref] && t.obj.GetDeletionTimestamp() == nil {
				rest = append(rest, t)
			}
		}
	}
	take := func(t taken, op int) {
		t.by = op
		out = append(out, t)
		if uid := t.obj.GetUID(); uid != "" {
			by[uid] = op
		}
	}
	rest = slices.DeleteFunc(rest, func(t taken) bool {
		i := slices.IndexFunc(holders, func(h held) bool { return h.holds(t.ref.Resource, t.ref.Key) })
		if i >= 0 {
			take(t, holders[i].op)
		}
		return i >= 0
	})
	for found := -1; found != len(out); { // owners own owners
		found = len(out)
		rest = slices.DeleteFunc(rest, func(t taken) bool {
			op, orphan := orphaned(t.obj.GetOwnerReferences(), by)
			if orphan {
				take(t, op)
			}
			return orphan
		})
	}
	slices.SortStableFunc(out, func(a, b taken) int {
		return cmp.Or(cmp.Compare(a.by, b.by), strings.Compare(a.ref.String(), b.ref.String()))
	})
	return slices.DeleteFunc(out, func(t taken) bool { return ordinary(t) })
}

// orphaned says whether all owners of an object go, and with which op the
// first does. The garbage collector deletes no object that still has one.
func orphaned(owners []metav1.OwnerReference, by map[types.UID]int) (int, bool) {
	for _, o := range owners {
		if _, ok := by[o.UID]; !ok {
			return 0, false
		}
	}
	if len(owners) == 0 {
		return 0, false
	}
	return by[owners[0].UID], true
}

// owns says whether objects of a kind may have others that go with them. Of
// the kinds without a namespace few do; for those all objects there are must be
// looked at.
func owns(r *schema.Resource) bool {
	if r.Namespaced || r.Custom != nil || r.Group == v1alpha1.GroupVersion.Group {
		return true
	}
	return slices.Contains([]string{"Namespace", "CustomResourceDefinition", "Node"}, r.Kind)
}

// ordinary says whether every namespace has an object, or nobody misses it.
func ordinary(t taken) bool {
	switch t.ref.Resource.Kind {
	case "Event":
		return true
	case "ServiceAccount":
		return t.ref.Key.Name == "default"
	case "ConfigMap":
		return t.ref.Key.Name == "kube-root-ca.crt"
	}
	return false
}

// remade says whether a built-in controller has made an object out of another
// and would again: it is no loss of its own, and no deletion that its author
// has to mean.
func remade(t taken) bool {
	switch t.ref.Resource.Kind {
	case "PersistentVolumeClaim":
		return false
	case "Endpoints", "EndpointSlice", "ControllerRevision":
		return true
	}
	owner := metav1.GetControllerOf(t.obj)
	if owner == nil {
		return false
	}
	gv, err := kschema.ParseGroupVersion(owner.APIVersion)
	return err == nil && schema.ByGVK(gv.WithKind(owner.Kind)) != nil
}

// listOf lists the live objects of all kinds: the built-in ones, and those that
// live definitions make. An object that more than one version of its kind shows
// is in the list once.
func listOf(live lister, kinds Kinds) func(namespace string) []taken {
	resources := slices.DeleteFunc(slices.Clone(schema.Resources), func(r *schema.Resource) bool { return r.Storage != nil })
	for _, o := range live.List(schema.ResourceFor[*apiextensionsv1.CustomResourceDefinition](), "") {
		def, ok := o.(*apiextensionsv1.CustomResourceDefinition)
		for i := 0; ok && kinds != nil && i < len(def.Spec.Versions); i++ {
			if r := kinds(kschema.GroupVersionKind{Group: def.Spec.Group, Version: def.Spec.Versions[i].Name, Kind: def.Spec.Names.Kind}); r != nil {
				resources = append(resources, r)
			}
		}
	}
	return func(namespace string) (out []taken) {
		type name struct {
			group, kind string
			key         schema.Key
		}
		seen := map[name]bool{}
		for _, r := range resources {
			if !r.Namespaced && namespace != "" {
				continue
			}
			for _, o := range live.List(r, namespace) {
				n := name{r.Group, r.Kind, schema.KeyOf(o)}
				if r.Custom != nil && seen[n] {
					continue
				}
				seen[n] = r.Custom != nil
				out = append(out, taken{ref: render.Ref{Resource: r, Key: schema.KeyOf(o)}, obj: o})
			}
		}
		return out
	}
}

// counted is how many objects of each kind there are: "3 Pods, 2 Secrets".
func counted(all []taken) string {
	n := map[string]int{}
	for _, t := range all {
		n[t.ref.Resource.Kind]++
	}
	parts := make([]string, 0, len(n))
	for _, kind := range slices.SortedFunc(maps.Keys(n), func(a, b string) int { return cmp.Or(cmp.Compare(n[b], n[a]), strings.Compare(a, b)) }) {
		parts = append(parts, fmt.Sprintf("%d %s", n[kind], plural(kind, n[kind])))
	}
	return strings.Join(parts, ", ")
}

func plural(kind string, n int) string {
	switch {
	case n == 1, strings.HasSuffix(kind, "Endpoints"):
		return kind
	case strings.HasSuffix(kind, "s"):
		return kind + "es"
	case strings.HasSuffix(kind, "y") && !strings.HasSuffix(kind, "ay") && !strings.HasSuffix(kind, "ey"):
		return strings.TrimSuffix(kind, "y") + "ies"
	}
	return kind + "s"
}
