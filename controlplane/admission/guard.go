package admission

import (
	"context"
	"fmt"
	"strings"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	kschema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/writ-os/writ/controlplane/auth/identity"
	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/registry"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// patience is how long a write waits for the first reading of the inventories.
const patience = 10 * time.Second

// Guard refuses writes to what Git declares, object by object and field by
// field, to everyone but the reconciler. Status passes, and so do fields that
// Git leaves out and the deletion of what is ending anyway. The pods of what Git
// declares are Git's whole, and so are its owners (foreign.go): a sidecar, or a
// reference by which the garbage collector deletes, is a change of what is
// declared. The loops of this process delete what Git declares only for the
// reasons that deletion.go names.
//
// What spec.ignore of the Repository names is left to others.
//
// Break-glass passes, with a warning and a note in the audit log that say where
// in Git what it changes is declared: the reconciler puts it back.
//
// It works after Mutate, on the object as it would be stored: nothing that a
// later plugin changes escapes it.
type Guard struct {
	validates
	cache     client.Cache
	catalog   *schema.Live
	inventory *inventory
	ready     chan struct{}
}

var _ registry.Admission = (*Guard)(nil)

// NewGuard returns a guard; it starts nothing.
func NewGuard(cache client.Cache) *Guard {
	return &Guard{cache: cache, inventory: newInventory(), ready: make(chan struct{})}
}

// Run follows the inventories until ctx ends.
func (g *Guard) Run(ctx context.Context) error {
	if err := g.cache.Subscribe(ctx, schema.ResourceFor[*v1alpha1.Inventory](), g.inventory.observe); err != nil {
		return fmt.Errorf("subscribe to inventories: %w", err)
	}
	close(g.ready)
	<-ctx.Done()
	return nil
}

// Handles implements registry.Handler. Binding a pod is the scheduler's.
func (g *Guard) Handles(verb string, _ *schema.Resource, sub string) bool {
	return sub != "binding" && verb != "connect"
}

// Validate implements registry.Admission.
func (g *Guard) Validate(ctx context.Context, a *registry.Attributes) error {
	if err := refsOfGit(a); err != nil {
		return err
	}
	if identity.Is(a.User, identity.Reconciler) {
		return nil
	}
	if err := reserved(a); err != nil {
		return err
	}
	if a.Subresource == "status" {
		return g.checkUpdate(ctx, a) // its labels, say, may be Git's
	}
	if err := g.wait(ctx, a); err != nil {
		return err
	}
	switch {
	case a.Verb == "delete":
		return g.checkDelete(ctx, a)
	case a.Verb == "create":
		return g.checkCreate(ctx, a)
	}
	return g.checkUpdate(ctx, a)
}

func (g *Guard) checkCreate(ctx context.Context, a *registry.Attributes) error {
	if a.Subresource != "" || identity.Is(a.User, user.KubeControllerManager) {
		return nil
	}
	// Declared, but missing: the name is Git's, and the reconciler about to
	// bring it back.
	if p, ok := g.inventory.find(a.Resource, a.Key); ok {
		return refuse(ctx, a, p, nil)
	}
	return nil
}

func (g *Guard) checkUpdate(ctx context.Context, a *registry.Attributes) error {
	if a.Old == nil || a.Object == nil {
		return nil
	}
	if a.Subresource == "status" && sameMeta(a.Old, a.Object) {
		return nil // by far the most frequent write of all
	}
	if a.Old.GetDeletionTimestamp() != nil && onlyReleases(a) {
		return nil // it was deleted lawfully: whoever holds it must be able to let go
	}
	old := a.Old
	fields, foreign := fieldpath.NewSet(), fieldpath.NewSet()
	var err error
	if scale, ok := a.Object.(*autoscalingv1.Scale); ok {
		if old, ok = a.Cluster.Get(a.Resource, a.Key); !ok {
			return nil
		}
		fields, err = scaled(a, old, scale)
	} else {
		fields, foreign, err = touched(a)
	}
	if err != nil {
		return forbidden(a, err)
	}
	unknown := gitFields(old) == nil // nobody knows which fields are Git's: then all of them
	if fields.Empty() && foreign.Empty() && !unknown {
		return nil
	}
	p, ok := g.place(a.Cluster, a.Resource, a.Key, old)
	if !ok {
		return nil // Git has let go of it, whatever is still recorded on it
	}
	ignored := p.ignored(a.Cluster, a.Resource, a.Key)
	fields, foreign = without(fields, ignored), without(foreign, ignored)
	switch {
	case !fields.Empty():
		return refuse(ctx, a, p, names(fields))
	case !foreign.Empty():
		return refuseForeign(ctx, a, p, names(foreign))
	case unknown && a.Subresource != "status":
		return refuse(ctx, a, p, nil)
	}
	return nil
}

// onlyReleases says whether an update of what is being deleted takes finalizers
// off, and nothing else.
func onlyReleases(a *registry.Attributes) bool {
	if ns, ok := a.Object.(*corev1.Namespace); ok && a.Subresource == "finalize" {
		old, ok := a.Old.(*corev1.Namespace)
		return ok && len(ns.Spec.Finalizers) < len(old.Spec.Finalizers)
	}
	same := a.Object.DeepCopyObject().(schema.Object)
	same.SetFinalizers(a.Old.GetFinalizers())
	same.SetManagedFields(a.Old.GetManagedFields())
	same.SetResourceVersion(a.Old.GetResourceVersion())
	same.SetGeneration(a.Old.GetGeneration())
	return len(a.Object.GetFinalizers()) < len(a.Old.GetFinalizers()) && equality.Semantic.DeepEqual(same, a.Old)
}

// place returns where an object is declared; old is its stored state, nil when
// there is none. What the index does not know yet, because the commit that
// declares it has been stored this very moment, the cluster does.
func (g *Guard) place(c client.Cache, r *schema.Resource, key schema.Key, old schema.Object) (place, bool) {
	if p, ok := g.inventory.find(r, key); ok {
		return p, true
	}
	if old == nil || !g.inventory.behind(c) {
		return place{}, false
	}
	k := declared{r.Group, r.Kind, key.Namespace, key.Name}
	p, n := scan(c, func(d declared) bool { return d == k })
	return p, n > 0
}

// Explain says where the object of a refused request is declared, for
// auth.AuthorizerConfig: people without any right to write learn that way what
// to edit. "" when Git does not declare it.
func (g *Guard) Explain(attrs authorizer.Attributes) string {
	if !attrs.IsResourceRequest() || attrs.GetName() == "" {
		return ""
	}
	switch attrs.GetVerb() {
	case "create", "update", "patch", "delete":
	default:
		return ""
	}
	r := g.catalog.Load().ByGVR(kschema.GroupVersionResource{Group: attrs.GetAPIGroup(), Version: attrs.GetAPIVersion(), Resource: attrs.GetResource()})
	if r == nil {
		return ""
	}
	switch attrs.GetSubresource() {
	case "", "scale", "eviction":
	default:
		return ""
	}
	namespace := attrs.GetNamespace()
	if !r.Namespaced {
		namespace = ""
	}
	key := schema.Key{Namespace: namespace, Name: attrs.GetName()}
	old, _ := g.cache.Get(r, key)
	if p, ok := g.place(g.cache, r, key, old); ok {
		return declaredError(p, nil).Error()
	}
	return ""
}

func (g *Guard) wait(ctx context.Context, a *registry.Attributes) error {
	select {
	case <-g.ready:
		return nil
	default:
	}
	if identity.InProcess(a.User) {
		return nil // they start while the inventories are read
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case <-g.ready:
		return nil
	case <-ctx.Done():
		return apierrors.NewServiceUnavailable("the write guard has not read yet what Git declares; try again")
	}
}

// declaredError names the place to edit, and the fields when the rest of the
// object is not Git's.
func declaredError(where place, fields []string) error {
	return fmt.Errorf("%sdeclared in Git: edit %s; the API is read-only for what Git declares", shorten(fields), where)
}

// shorten prints the first of some fields, with a space behind.
func shorten(fields []string) string {
	if len(fields) == 0 {
		return ""
	}
	shown := fields[:min(len(fields), 3)]
	what := strings.Join(shown, ", ") + " "
	if more := len(fields) - len(shown); more > 0 {
		what = fmt.Sprintf("%sand %d more ", what, more)
	}
	return what
}

// foreignError names what an object must not get because its place in Git has
// not got it.
func foreignError(where place, fields []string) error {
	return fmt.Errorf("%snot declared in Git, which declares the rest: edit %s; the API is read-only for the pods and owners of what Git declares, except for fields that the Repository's spec.ignore names",
		shorten(fields), where)
}

// declaredStatus refuses because of what Git declares.
func declaredStatus(a *registry.Attributes, err error) error {
	status := apierrors.NewForbidden(a.Resource.GroupResource(), nameOf(a), err)
	status.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: v1alpha1.DeclaredCause, Message: err.Error()}}
	return status
}

func forbidden(a *registry.Attributes, err error) error {
	return apierrors.NewForbidden(a.Resource.GroupResource(), nameOf(a), err)
}
