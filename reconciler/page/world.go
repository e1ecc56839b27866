package page

import (
	"cmp"
	"net/url"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/reconciler/health"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// world is the cluster as one viewer sees it, during one request.
type world struct {
	cache   client.Cache
	catalog *schema.Catalog
	viewer  *viewer
	health  func(schema.Object) health.Health
	now     time.Time
	from    map[ref]*origin // by origins, once
}

func newWorld(cfg Config, v *viewer) *world {
	return &world{cache: cfg.Cache, catalog: cfg.Catalog.Load(), viewer: v, health: cfg.Health, now: cfg.Now()}
}

// ref names an object; resource is the row by which it is served.
type ref struct {
	resource *schema.Resource
	key      schema.Key
}

// origin is where Git declares an object.
type origin struct {
	Repository, File string
	Line             int
	Commit, Author   string
	Time             time.Time
}

// item is an object with what is known of it.
type item struct {
	ref
	object schema.Object // nil: declared and not there
	health health.Health
	origin *origin // nil: not from Git
}

// get returns an object that the viewer may get.
func (w *world) get(r *schema.Resource, key schema.Key) (schema.Object, bool) {
	if !w.viewer.mayGet(r, key) {
		return nil, false
	}
	return w.cache.Get(r.Stored(), key)
}

// list returns the objects of a namespace, or of all for "", that the viewer
// may list.
func (w *world) list(r *schema.Resource, namespace string) []schema.Object {
	if r == nil {
		return nil
	}
	if w.viewer.mayList(r, namespace) {
		return w.cache.List(r.Stored(), namespace)
	}
	if !r.Namespaced || namespace != "" {
		return nil
	}
	var out []schema.Object
	for _, o := range w.cache.List(r.Stored(), "") {
		if w.viewer.mayList(r, o.GetNamespace()) {
			out = append(out, o)
		}
	}
	return out
}

// listOf is list with the Go type.
func listOf[T schema.Object](w *world, namespace string) []T {
	objects := w.list(schema.ResourceFor[T](), namespace)
	out := make([]T, 0, len(objects))
	for _, o := range objects {
		if t, ok := o.(T); ok {
			out = append(out, t)
		}
	}
	return out
}

// inventory calls fn for what Git declares and the viewer may list.
func (w *world) inventory(fn func(ref, *origin)) {
	for _, inv := range listOf[*v1alpha1.Inventory](w, "") {
		shared := origin{Repository: inv.Spec.Repository, File: inv.Spec.File, Commit: inv.Spec.Commit, Author: inv.Spec.Author, Time: inv.Spec.Time.Time}
		for i := range inv.Spec.Objects {
			d := &inv.Spec.Objects[i]
			r := w.catalog.ByGVK(kschema.GroupVersionKind{Group: d.Group, Version: d.Version, Kind: d.Kind})
			if r == nil || !w.viewer.mayList(r, d.Namespace) {
				continue
			}
			from := shared
			from.Line, from.File = d.Line, cmp.Or(d.File, shared.File)
			fn(ref{r, schema.Key{Namespace: d.Namespace, Name: d.Name}}, &from)
		}
	}
}

// declared returns what Git declares, by repository, file and line.
func (w *world) declared() []item {
	var out []item
	w.inventory(func(k ref, from *origin) {
		it := item{ref: k, origin: from}
		w.fill(&it)
		out = append(out, it)
	})
	slices.SortStableFunc(out, func(a, b item) int {
		return cmp.Or(strings.Compare(a.origin.Repository, b.origin.Repository), strings.Compare(a.origin.File, b.origin.File), cmp.Compare(a.origin.Line, b.origin.Line))
	})
	return out
}

// fill finds the live object and how it is.
func (w *world) fill(it *item) {
	if o, ok := w.cache.Get(it.resource.Stored(), it.key); ok {
		it.object = o
	}
	it.health = w.health(it.object)
}

// itemOf is an object that exists.
func (w *world) itemOf(r *schema.Resource, o schema.Object) item {
	k := ref{r, schema.KeyOf(o)}
	return item{ref: k, object: o, health: w.health(o), origin: w.originOf(k)}
}

// originOf says where Git declares an object; nil where it does not.
func (w *world) originOf(k ref) *origin {
	if w.from == nil {
		w.from = map[ref]*origin{}
		w.inventory(func(k ref, from *origin) { w.from[ref{k.resource.Stored(), k.key}] = from })
	}
	return w.from[ref{k.resource.Stored(), k.key}]
}

// noise are kinds that a list of all objects leaves out: they have pages of
// their own, or change every second and say nothing.
var noise = map[string]bool{"Event": true, "Lease": true, "Commit": true, "Inventory": true, "EndpointSlice": true, "Endpoints": true, "ControllerRevision": true, "ComponentStatus": true}

// everything returns what Git declares, and what else is in the cluster.
func (w *world) everything() []item {
	out := w.declared()
	known := make(map[ref]bool, len(out))
	for i := range out {
		known[ref{out[i].resource.Stored(), out[i].key}] = true
	}
	for _, stored := range w.catalog.Stored() {
		r := w.catalog.Served(stored)
		if r == nil || noise[r.Kind] {
			continue
		}
		for _, o := range w.list(r, "") {
			if k := (ref{stored, schema.KeyOf(o)}); !known[k] {
				out = append(out, item{ref: ref{r, k.key}, object: o, health: w.health(o)})
			}
		}
	}
	return out
}

// childKinds are the kinds that a controller of a kind makes; of the kinds that
// are not here all are asked.
var childKinds = map[string][]string{
	"Deployment": {"ReplicaSet"}, "ReplicaSet": {"Pod"}, "ReplicationController": {"Pod"}, "StatefulSet": {"Pod"}, "DaemonSet": {"Pod"},
	"Job": {"Pod"}, "CronJob": {"Job"}, "Pod": {}, "ConfigMap": {}, "Secret": {}, "Namespace": {}, "ServiceAccount": {}, "Service": {}, "Ingress": {},
	"Role": {}, "RoleBinding": {}, "ClusterRole": {}, "ClusterRoleBinding": {}, "NetworkPolicy": {}, "PersistentVolumeClaim": {},
	"PersistentVolume": {}, "PodDisruptionBudget": {}, "HorizontalPodAutoscaler": {}, "ResourceQuota": {}, "LimitRange": {}, "StorageClass": {},
	"Node": {}, "Repository": {}, "Cluster": {}, "CustomResourceDefinition": {}, "PriorityClass": {},
}

// children returns what an object controls and the viewer may list.
func (w *world) children(r *schema.Resource, o schema.Object) []item {
	if o == nil || o.GetUID() == "" {
		return nil
	}
	kinds, known := childKinds[r.Kind]
	if known && len(kinds) == 0 {
		return nil
	}
	var out []item
	for _, stored := range w.catalog.Stored() {
		served := w.catalog.Served(stored)
		if served == nil || known && !slices.Contains(kinds, served.Kind) || !known && (served.Kind == "Event" || served.Kind == "Lease") {
			continue
		}
		for _, c := range w.cache.Index(stored, client.IndexOwner, string(o.GetUID())) {
			if w.viewer.mayList(served, c.GetNamespace()) {
				out = append(out, item{ref: ref{served, schema.KeyOf(c)}, object: c, health: w.health(c)})
			}
		}
	}
	return out
}

// maxChain is how far owners are followed up and children down.
const maxChain = 8

// owners returns the chain from the outermost controller to the object itself.
func (w *world) owners(it item) []item {
	chain := []item{it}
	for len(chain) < maxChain && chain[0].object != nil {
		c := metav1.GetControllerOfNoCopy(chain[0].object)
		if c == nil {
			break
		}
		gv, err := kschema.ParseGroupVersion(c.APIVersion)
		if err != nil {
			break
		}
		r := w.catalog.ByGVK(gv.WithKind(c.Kind))
		if r == nil {
			break
		}
		key := schema.Key{Name: c.Name}
		if r.Namespaced {
			key.Namespace = it.key.Namespace
		}
		o, ok := w.get(r, key)
		if !ok || o.GetUID() != c.UID {
			break
		}
		chain = append([]item{w.itemOf(r, o)}, chain...)
	}
	return chain
}

// pods returns the pods that an object leads to through its children.
func (w *world) pods(r *schema.Resource, o schema.Object, depth int) []*corev1.Pod {
	var out []*corev1.Pod
	for _, c := range w.children(r, o) {
		if p, ok := c.object.(*corev1.Pod); ok {
			out = append(out, p)
		} else if depth < maxChain {
			out = append(out, w.pods(c.resource, c.object, depth+1)...)
		}
	}
	return out
}

// find returns the row that serves a group and plural; group "core" is "".
func (w *world) find(group, plural string) *schema.Resource {
	if group == "core" {
		group = ""
	}
	for _, stored := range w.catalog.Stored() {
		if r := w.catalog.Served(stored); r != nil && r.Group == group && r.Plural == plural {
			return r
		}
	}
	return nil
}

// byKind returns the rows of a kind, of whatever group.
func (w *world) byKind(kind string) []*schema.Resource {
	var out []*schema.Resource
	for _, r := range w.catalog.All() {
		if r.Kind == kind {
			out = append(out, r)
		}
	}
	return out
}

// maySee says whether the viewer may see what is said of "Kind/namespace/name"
// or "Kind/name". Of a kind that is not served anybody may hear.
func (w *world) maySee(object string) bool {
	kind, key := splitObject(object)
	for _, r := range w.byKind(kind) {
		if !w.viewer.mayList(r, key.Namespace) && !w.viewer.mayGet(r, key) {
			return false
		}
	}
	return true
}

// hrefOf is the page of an object; "" where there is none.
func hrefOf(r *schema.Resource, key schema.Key) string {
	switch {
	case r.Group == v1alpha1.GroupVersion.Group && r.Kind == "Commit":
		return Prefix + "commits/" + url.PathEscape(key.Name)
	case r.Group == "" && r.Kind == "Node":
		return Prefix + "nodes/" + url.PathEscape(key.Name)
	}
	return Prefix + "objects/" + cmp.Or(r.Group, "core") + "/" + r.Plural + "/" + cmp.Or(url.PathEscape(key.Namespace), "-") + "/" + url.PathEscape(key.Name)
}

// hrefOfObject is the page of "Kind/namespace/name"; "" where there is none for
// the viewer.
func (w *world) hrefOfObject(object string) string {
	kind, key := splitObject(object)
	for _, r := range w.byKind(kind) {
		if r.Namespaced != (key.Namespace != "") || !w.viewer.mayGet(r, key) {
			continue
		}
		if _, ok := w.cache.Get(r.Stored(), key); ok || w.originOf(ref{r, key}) != nil {
			return hrefOf(r, key)
		}
	}
	return ""
}

func splitObject(object string) (string, schema.Key) {
	kind, rest, _ := strings.Cut(object, "/")
	if ns, name, ok := strings.Cut(rest, "/"); ok {
		return kind, schema.Key{Namespace: ns, Name: name}
	}
	return kind, schema.Key{Name: rest}
}

// commits are those that the viewer may list.
func (w *world) commits() []*v1alpha1.Commit { return listOf[*v1alpha1.Commit](w, "") }
