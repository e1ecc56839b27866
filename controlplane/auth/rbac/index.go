package rbac

import (
	"cmp"
	"slices"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

// binding is a RoleBinding or ClusterRoleBinding.
type binding struct {
	key      schema.Key // no namespace: cluster-wide
	role     rbacv1.RoleRef
	subjects []rbacv1.Subject
}

// index finds bindings by subject, so that a request costs what its user is
// bound to and not what the cluster has. Resolved rules of ClusterRoles are
// kept until any ClusterRole changes.
type index struct {
	mu           sync.RWMutex
	roles        map[schema.Key]*rbacv1.Role
	clusterRoles map[string]*rbacv1.ClusterRole
	bindings     map[schema.Key]*binding
	// bySubject holds the bindings of a subject in a namespace, "" for
	// cluster-wide ones.
	bySubject map[subjectKey][]*binding

	resolvedMu sync.Mutex
	resolved   map[string][]rbacv1.PolicyRule
}

type subjectKey struct{ namespace, kind, name string }

func newIndex() *index {
	return &index{
		roles:        map[schema.Key]*rbacv1.Role{},
		clusterRoles: map[string]*rbacv1.ClusterRole{},
		bindings:     map[schema.Key]*binding{},
		bySubject:    map[subjectKey][]*binding{},
		resolved:     map[string][]rbacv1.PolicyRule{},
	}
}

// observe takes in one change of any of the four kinds.
func (x *index) observe(e client.Event) {
	deleted := e.Type == client.Deleted
	if !deleted && e.Type != client.Added && e.Type != client.Modified {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	switch o := e.Object.(type) {
	case *rbacv1.Role:
		if deleted {
			delete(x.roles, schema.KeyOf(o))
		} else {
			x.roles[schema.KeyOf(o)] = o
		}
	case *rbacv1.ClusterRole:
		if deleted {
			delete(x.clusterRoles, o.Name)
		} else {
			x.clusterRoles[o.Name] = o
		}
		x.resolvedMu.Lock()
		clear(x.resolved)
		x.resolvedMu.Unlock()
	case *rbacv1.RoleBinding:
		x.setBinding(&binding{schema.KeyOf(o), o.RoleRef, o.Subjects}, deleted)
	case *rbacv1.ClusterRoleBinding:
		x.setBinding(&binding{schema.KeyOf(o), o.RoleRef, o.Subjects}, deleted)
	}
}

func (x *index) setBinding(b *binding, deleted bool) {
	if old := x.bindings[b.key]; old != nil {
		for _, s := range subjectKeys(old) {
			x.bySubject[s] = without(x.bySubject[s], old)
			if len(x.bySubject[s]) == 0 {
				delete(x.bySubject, s)
			}
		}
		delete(x.bindings, b.key)
	}
	if deleted {
		return
	}
	x.bindings[b.key] = b
	for _, s := range subjectKeys(b) {
		x.bySubject[s] = append(x.bySubject[s], b)
	}
}

// subjectKeys names the distinct users and groups of a binding.
func subjectKeys(b *binding) []subjectKey {
	keys := make([]subjectKey, 0, len(b.subjects))
	for _, s := range b.subjects {
		if k, ok := keyOf(s, b.key.Namespace); ok && !slices.Contains(keys, k) {
			keys = append(keys, k)
		}
	}
	return keys
}

// keyOf names one subject. A service account is the user it authenticates as;
// false when it has no namespace.
func keyOf(s rbacv1.Subject, bindingNamespace string) (subjectKey, bool) {
	if s.Kind != rbacv1.ServiceAccountKind {
		return subjectKey{bindingNamespace, s.Kind, s.Name}, true
	}
	ns := cmp.Or(s.Namespace, bindingNamespace)
	return subjectKey{bindingNamespace, rbacv1.UserKind, serviceaccount.MakeUsername(ns, s.Name)}, ns != ""
}

func without(list []*binding, b *binding) []*binding {
	out := make([]*binding, 0, len(list))
	for _, l := range list {
		if l != b {
			out = append(out, l)
		}
	}
	return out
}

// visit calls fn for each binding that applies to a user in a namespace, the
// cluster-wide ones first, until fn returns false. The lock is held.
func (x *index) visit(u user.Info, namespace string, fn func(*binding, subjectKey) bool) {
	scopes := []string{""}
	if namespace != "" {
		scopes = []string{"", namespace}
	}
	for _, scope := range scopes {
		key := subjectKey{scope, rbacv1.UserKind, u.GetName()}
		for _, b := range x.bySubject[key] {
			if !fn(b, key) {
				return
			}
		}
		for _, g := range u.GetGroups() {
			key := subjectKey{scope, rbacv1.GroupKind, g}
			for _, b := range x.bySubject[key] {
				if !fn(b, key) {
					return
				}
			}
		}
	}
}
