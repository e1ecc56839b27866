package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// maxOwners bounds how many owners are gone through; real ones are three deep.
const maxOwners = 10

// made is a live object that Git does not declare: it was made of another.
type made struct {
	name  string // Kind/namespace/name
	field string // of it that is asked for; "" is none
	// through are the objects on the way, and last is that which nobody owns.
	through []string
	last    schema.Object
}

// throughOwners finds the declared objects that live ones of a kind and name
// were made of, by their owners: a Pod of a ReplicaSet of a Deployment. others
// are those that are made of nothing that is declared.
func throughOwners(ctx context.Context, c client.Reader, inventories []*v1alpha1.Inventory, r *schema.Resource, namespace, text string) (found []origin, fields []string, others []made, err error) {
	served, err := readKinds(ctx, c)
	if err != nil {
		return nil, nil, nil, err
	}
	live, field, err := liveNamed(ctx, c, r, namespace, text)
	if err != nil {
		return nil, nil, nil, err
	}
	for _, o := range live {
		m := made{name: render.ObjectName(r.Kind, schema.KeyOf(o)), field: field, last: o}
		origins := m.climb(ctx, c, served, inventories, r)
		for i := range origins {
			origins[i].Through = m.through
			found, fields = append(found, origins[i]), append(fields, m.field)
		}
		if len(origins) == 0 {
			others = append(others, m)
		}
	}
	return found, fields, others, nil
}

// liveNamed reads the live objects of a name, and says what of the text is a
// field. The longest name that there is wins.
func liveNamed(ctx context.Context, c client.Reader, r *schema.Resource, namespace, text string) (out []schema.Object, field string, err error) {
	list, err := c.List(ctx, r, client.ListOptions{Namespace: namespace})
	if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", fmt.Errorf("list %s: %w", r, err)
	}
	name, field := splitField(text, func(s string) bool {
		return slices.ContainsFunc(list.Items, func(o schema.Object) bool { return o.GetName() == s })
	})
	for _, o := range list.Items {
		if o.GetName() == name {
			out = append(out, o)
		}
	}
	return out, field, nil
}

// climb goes from owner to owner until one is declared.
func (m *made) climb(ctx context.Context, c client.Reader, served *schema.Catalog, inventories []*v1alpha1.Inventory, r *schema.Resource) []origin {
	for range maxOwners {
		key := schema.KeyOf(m.last)
		if _, _, found := origins(inventories, r, r.Kind, key.Namespace, key.Name); len(found) > 0 {
			return found
		}
		m.through = append(m.through, render.ObjectName(r.Kind, key))
		owner := metav1.GetControllerOf(m.last)
		if owners := m.last.GetOwnerReferences(); owner == nil && len(owners) > 0 {
			owner = &owners[0]
		}
		if owner == nil {
			return nil
		}
		gv, err := kschema.ParseGroupVersion(owner.APIVersion)
		next := served.ByGVK(gv.WithKind(owner.Kind))
		if err != nil || next == nil {
			return nil
		}
		up := schema.Key{Name: owner.Name}
		if next.Namespaced {
			up.Namespace = key.Namespace
		}
		o, err := c.Get(ctx, next, up)
		if err != nil {
			return nil // it is gone, or not ours to see
		}
		m.field = fieldAbove(m.field, r.Kind, next.Kind)
		m.last, r = o, next
	}
	return nil
}

// fieldAbove is where an owner says what a field of an object it has made is;
// "" where it does not.
func fieldAbove(field, kind, owner string) string {
	pods := kind == "Pod" && slices.Contains([]string{"ReplicaSet", "Deployment", "StatefulSet", "DaemonSet", "Job", "ReplicationController"}, owner)
	switch {
	case field == "":
		return ""
	case pods:
		return "spec.template." + field
	case kind == "Job" && owner == "CronJob":
		return "spec.jobTemplate." + field
	case kind == "ReplicaSet" && owner == "Deployment" && strings.HasPrefix(field, "spec."):
		return field
	}
	return ""
}

// write says of a live object that nobody declares what is known of it.
func (m *made) write(b *strings.Builder) {
	fmt.Fprintf(b, "%s is not declared in Git", m.name)
	if len(m.through) > 1 {
		fmt.Fprintf(b, ", nor is what it was made of: %s", strings.Join(m.through[1:], ", made of "))
	}
	if managers := m.last.GetManagedFields(); len(managers) > 0 {
		fmt.Fprintf(b, " (written by %s)", managers[0].Manager)
	}
	b.WriteString("\n")
}
