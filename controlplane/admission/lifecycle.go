package admission

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/registry"
	"github.com/writ-os/writ/schema"
)

// NamespaceLifecycle lets nothing be created in a namespace that does not
// exist or is ending, and keeps the namespaces that a cluster cannot be without.
type NamespaceLifecycle struct{ mutates }

var _ registry.Admission = (*NamespaceLifecycle)(nil)

// immortal are the namespaces that nobody deletes.
var immortal = map[string]bool{
	metav1.NamespaceDefault: true, metav1.NamespaceSystem: true, metav1.NamespacePublic: true,
	corev1.NamespaceNodeLease: true,
}

// Handles implements registry.Handler.
func (*NamespaceLifecycle) Handles(verb string, r *schema.Resource, _ string) bool {
	return r.Namespaced && verb != "delete" || is(r, "", "namespaces") && verb == "delete"
}

// Mutate implements registry.Admission. It refuses early, before others add
// to an object that has nowhere to go.
func (*NamespaceLifecycle) Mutate(_ context.Context, a *registry.Attributes) error {
	if is(a.Resource, "", "namespaces") {
		if immortal[a.Key.Name] {
			return apierrors.NewForbidden(a.Resource.GroupResource(), a.Key.Name, fmt.Errorf("this namespace may not be deleted"))
		}
		return nil
	}
	if a.Verb != "create" && a.Old != nil {
		return nil // it exists, and so does its namespace
	}
	ns, ok := client.Cached[*corev1.Namespace](a.Cluster, schema.Key{Name: a.Key.Namespace})
	if !ok {
		return apierrors.NewNotFound(corev1.Resource("namespaces"), a.Key.Namespace)
	}
	if a.Verb != "create" || a.Subresource != "" || ns.DeletionTimestamp == nil && ns.Status.Phase != corev1.NamespaceTerminating {
		return nil
	}
	return terminating(a, ns)
}

func terminating(a *registry.Attributes, ns *corev1.Namespace) error {
	err := apierrors.NewForbidden(a.Resource.GroupResource(), nameOf(a),
		fmt.Errorf("unable to create new content in namespace %s because it is being terminated", ns.Name))
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{
		Type:    corev1.NamespaceTerminatingCause,
		Message: fmt.Sprintf("namespace %s is being terminated", ns.Name),
		Field:   "metadata.namespace",
	})
	return err
}
