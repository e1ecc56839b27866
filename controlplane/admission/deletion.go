package admission

import (
	"context"
	"errors"
	"fmt"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	kschema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/writ-os/writ/controlplane/auth/identity"
	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/registry"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

func (g *Guard) checkDelete(ctx context.Context, a *registry.Attributes) error {
	if a.Old != nil && a.Old.GetDeletionTimestamp() != nil || ending(a) {
		return nil
	}
	if p, ok := g.place(a.Cluster, a.Resource, a.Key, a.Old); ok {
		lawful, err := g.lawful(a, p)
		if err != nil {
			return forbidden(a, err)
		}
		if lawful {
			return nil
		}
		return refuse(ctx, a, p, nil)
	}
	switch {
	case is(a.Resource, "", "namespaces"):
		return g.checkWhole(ctx, a, "objects in it", func() (place, int) { return g.inNamespace(a.Cluster, a.Key.Name) })
	case is(a.Resource, "apiextensions.k8s.io", "customresourcedefinitions"):
		def, ok := a.Old.(*apiextensionsv1.CustomResourceDefinition)
		if !ok {
			return nil
		}
		return g.checkWhole(ctx, a, "objects of this kind", func() (place, int) {
			return g.ofKind(a.Cluster, kschema.GroupKind{Group: def.Spec.Group, Kind: def.Spec.Names.Kind})
		})
	}
	return nil
}

// checkWhole refuses to delete what Git does not declare and whose deletion
// takes along what Git declares. It says so before anything is gone: halfway
// there is no way back.
func (g *Guard) checkWhole(ctx context.Context, a *registry.Attributes, what string, count func() (place, int)) error {
	p, n := count()
	switch {
	case n == 0:
		return nil
	case breakGlass(a.User):
		warnBreakGlass(ctx, a, fmt.Sprintf("%d %s are declared in Git, the first in %s; the reconciler puts them back", n, what, p))
		return nil
	}
	return declaredStatus(a, fmt.Errorf("%d %s are declared in Git, the first in %s; the API is read-only for what Git declares", n, what, p))
}

// ending says whether what holds an object is being deleted: its namespace, or
// the definition of its kind. Then the object goes too; whether it may was asked
// when that deletion began.
func ending(a *registry.Attributes) bool {
	if a.Key.Namespace != "" {
		if ns, ok := client.Cached[*corev1.Namespace](a.Cluster, schema.Key{Name: a.Key.Namespace}); ok && ns.DeletionTimestamp != nil {
			return true
		}
	}
	if schema.ByGVR(a.Resource.GVR()) != nil { // the row that the store keeps says nothing of a definition
		return false
	}
	def, ok := client.Cached[*apiextensionsv1.CustomResourceDefinition](a.Cluster, schema.Key{Name: a.Resource.Plural + "." + a.Resource.Group})
	return ok && def.DeletionTimestamp != nil
}

// lawful says whether a loop of this process may delete what Git declares. Who
// else than Git has the right depends on the object, not on the loop: many of
// them delete by what others write into an object.
//
//   - Pods that have ended, whose node is lost, tainted NoExecute or drained, and
//     that make room for more important ones: the reconciler makes them anew.
//   - Jobs that have ended, by a ttlSecondsAfterFinished that Git declares.
//   - What has owners by Git's own word.
func (g *Guard) lawful(a *registry.Attributes, p place) (bool, error) {
	if identity.Is(a.User, user.KubeScheduler) {
		return is(a.Resource, "", "pods"), nil
	}
	if !identity.Is(a.User, user.KubeControllerManager) || a.Old == nil {
		return false, nil
	}
	if pod, ok := a.Old.(*corev1.Pod); ok && mayLeave(a.Cluster, pod) {
		return true, nil
	}
	owned, err := fieldSet(gitFields(a.Old))
	if err != nil {
		return false, err
	}
	if _, ok := a.Old.(*batchv1.Job); ok && owned.Has(ttl) {
		return true, nil
	}
	for _, ref := range a.Old.GetOwnerReferences() {
		path := ownerPath(ref)
		if declares(owned, path) || without(fieldpath.NewSet(path), p.ignored(a.Cluster, a.Resource, a.Key)).Empty() {
			return true, nil
		}
	}
	return false, nil
}

var ttl = fieldpath.MakePathOrDie("spec", "ttlSecondsAfterFinished")

// mayLeave says whether a pod has ended, or its node is no place for it.
func mayLeave(c client.Cache, pod *corev1.Pod) bool {
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return true
	}
	if pod.Spec.NodeName == "" {
		return false
	}
	node, ok := client.Cached[*corev1.Node](c, schema.Key{Name: pod.Spec.NodeName})
	if !ok || node.Spec.Unschedulable {
		return true
	}
	for _, t := range node.Spec.Taints {
		if t.Effect == corev1.TaintEffectNoExecute {
			return true
		}
	}
	return false
}

// gitRefs begins the names of the ConfigMaps of kube-system in which servers of the
// version before keep where the branches of the built-in repository are
// (controlplane/members).
const gitRefs = "writ-git-"

// refsOfGit refuses writes of the refs of Git around a push, which is what is
// rendered, judged and recorded: also those that Git itself declares. The server
// writes them, and break-glass where it must.
func refsOfGit(a *registry.Attributes) error {
	if a.Resource.Group != "" || a.Resource.Kind != "ConfigMap" || a.Key.Namespace != metav1.NamespaceSystem || !strings.HasPrefix(nameOf(a), gitRefs) {
		return nil
	}
	if identity.Is(a.User, identity.APIServer) || breakGlass(a.User) {
		return nil
	}
	return forbidden(a, errors.New("only the server writes where the branches of Git are: push instead"))
}

// reserved refuses what only the reconciler may ever write: its records, and
// fields in Git's name.
func reserved(a *registry.Attributes) error {
	if a.Resource.Group == v1alpha1.GroupVersion.Group {
		switch a.Resource.Kind {
		case "Inventory", "Commit":
			if a.Verb == "delete" && identity.Is(a.User, user.KubeControllerManager) {
				return nil
			}
			return forbidden(a, errors.New("only the reconciler writes what it has applied"))
		}
	}
	if a.FieldManager == GitManager || a.Verb == "create" && a.Object != nil && gitFields(a.Object) != nil {
		return forbidden(a, fmt.Errorf("field manager %q is reserved for the reconciler", GitManager))
	}
	return nil
}
