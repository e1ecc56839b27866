package admission

import (
	"context"
	"errors"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"

	"github.com/writ-os/writ/controlplane/auth/identity"
	"github.com/writ-os/writ/controlplane/registry"
	"github.com/writ-os/writ/schema"
)

// ServerTokens leaves it to administrators to write bootstrap tokens by which
// machines become servers: those are given every key of the cluster, and the
// right to write Secrets must not be that of taking it over. Git is not asked
// either: who may push is not who may administrate.
type ServerTokens struct{ validates }

var _ registry.Admission = (*ServerTokens)(nil)

// Handles implements registry.Handler.
func (*ServerTokens) Handles(verb string, r *schema.Resource, sub string) bool {
	return r.Group == "" && r.Plural == "secrets" && sub == "" && (verb == "create" || verb == "update")
}

// Validate implements registry.Admission.
func (*ServerTokens) Validate(_ context.Context, a *registry.Attributes) error {
	s, ok := a.Object.(*corev1.Secret)
	if !ok || s.Namespace != metav1.NamespaceSystem || !serverToken(s) {
		return nil
	}
	if old, ok := a.Old.(*corev1.Secret); ok && serverToken(old) && sameToken(old, s) {
		return nil // a label, a finalizer
	}
	if a.User != nil && identity.InGroup(a.User, user.SystemPrivilegedGroup) && !identity.Is(a.User, identity.Reconciler) {
		return nil
	}
	return forbidden(a, errors.New("bootstrap tokens of group "+identity.ServersGroup+" give the keys of the cluster: administrators alone make them, by 'writ token create --role server'"))
}

// serverToken says whether a Secret lists the servers' group, whatever its type
// is now.
func serverToken(s *corev1.Secret) bool {
	groups := strings.Split(string(s.Data[bootstrapapi.BootstrapTokenExtraGroupsKey]), ",")
	return slices.ContainsFunc(groups, func(g string) bool { return strings.TrimSpace(g) == identity.ServersGroup })
}

func sameToken(a, b *corev1.Secret) bool {
	if a.Type != b.Type || len(a.Data) != len(b.Data) {
		return false
	}
	for k, v := range a.Data {
		if w, ok := b.Data[k]; !ok || string(v) != string(w) {
			return false
		}
	}
	return true
}
