package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/reconciler"
	"github.com/writ-os/writ/reconciler/plan"
	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/reconciler/sandbox"
	"github.com/writ-os/writ/reconciler/source"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// readWorld reads what a plan of the tree is made against: the repositories,
// the inventories, and every kind that the trees or an inventory declare.
func readWorld(ctx context.Context, c client.Reader, o Options, trees ...render.Tree) (reconciler.World, error) {
	repository := o.repository()
	w := reconciler.World{Repository: repository, Priorities: map[string]int32{}}
	repositories, err := client.ListAll[*v1alpha1.Repository](ctx, c, client.ListOptions{})
	if err != nil && !apierrors.IsForbidden(err) {
		return w, fmt.Errorf("list repositories: %w", err)
	}
	for _, r := range repositories {
		w.Priorities[r.Name] = r.Spec.Priority
		if r.Name == repository {
			w.Spec = &r.Spec
		}
	}
	if w.Inventories, err = client.ListAll[*v1alpha1.Inventory](ctx, c, client.ListOptions{}); err != nil {
		return w, fmt.Errorf("list inventories: %w", err)
	}
	served, err := readKinds(ctx, c)
	if err != nil {
		return w, err
	}
	w.Kinds = served.ByGVK
	live, unreadable := liveObjects{}, map[*schema.Resource]bool{}
	for r := range kindsOf(ctx, o.Sandbox, trees, w, served) {
		list, err := c.List(ctx, r, client.ListOptions{})
		switch {
		case apierrors.IsForbidden(err):
			unreadable[r] = true
			continue
		case err != nil:
			return w, fmt.Errorf("list %s: %w", r, err)
		}
		for _, obj := range list.Items {
			live[render.Ref{Resource: r, Key: schema.KeyOf(obj)}] = obj
		}
	}
	w.Live = live
	w.Unreadable = func(r *schema.Resource) bool { return unreadable[r] }
	return w, nil
}

// readRepository returns a Repository; nil when there is none, or it is not
// ours to see.
func readRepository(ctx context.Context, c client.Reader, name string) (*v1alpha1.Repository, error) {
	r, err := client.Get[*v1alpha1.Repository](ctx, c, schema.Key{Name: name})
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read repository %s: %w", name, err)
	}
	return r, nil
}

// folderOf is the folder that a repository follows.
func folderOf(r *v1alpha1.Repository) string {
	if r == nil {
		return "."
	}
	return cmp.Or(strings.Trim(r.Spec.Path, "/"), ".")
}

// commits are the recorded commits of a repository, the newest first.
func commits(ctx context.Context, c client.Reader, repository string) ([]*v1alpha1.Commit, error) {
	all, err := client.ListAll[*v1alpha1.Commit](ctx, c, client.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list commits: %w", err)
	}
	all = slices.DeleteFunc(all, func(c *v1alpha1.Commit) bool { return c.Spec.Repository != repository })
	slices.SortStableFunc(all, func(a, b *v1alpha1.Commit) int { return seen(b).Compare(seen(a)) })
	return all, nil
}

// recorded finds a commit by the beginning of its SHA; nil: there is none.
func recorded(all []*v1alpha1.Commit, prefix string) (*v1alpha1.Commit, error) {
	if len(prefix) < 4 || strings.Trim(strings.ToLower(prefix), "0123456789abcdef") != "" {
		return nil, nil
	}
	var found []*v1alpha1.Commit
	for _, c := range all {
		if strings.HasPrefix(c.Spec.SHA, strings.ToLower(prefix)) {
			found = append(found, c)
		}
	}
	switch len(found) {
	case 0:
		return nil, nil
	case 1:
		return found[0], nil
	}
	return nil, Usage("%s is the beginning of %d commits: give more digits", prefix, len(found))
}

// kindsOf are the kinds that a plan has to look at.
func kindsOf(ctx context.Context, box *sandbox.Sandbox, trees []render.Tree, w reconciler.World, served *schema.Catalog) map[*schema.Resource]bool {
	kinds := map[*schema.Resource]bool{schema.ByGVK(render.NamespaceKind): true}
	for _, inv := range w.Inventories {
		for i := range inv.Spec.Objects {
			if ref, ok := plan.RefOf(&inv.Spec.Objects[i], w.Kinds); ok {
				kinds[ref.Resource] = true
			}
		}
	}
	if w.Spec != nil {
		for _, from := range w.Spec.VariablesFrom {
			kind := "ConfigMap"
			if strings.HasPrefix(from, "secret:") {
				kind = "Secret"
			}
			kinds[resource(kind)] = true
		}
	}
	declared := map[render.Ref]bool{}
	for _, t := range trees {
		manifests := renderedWith(ctx, t, box, served)
		maps.Copy(kinds, reconciler.Asked(manifests))
		for _, m := range manifests {
			declared[m.Ref] = true
			if m.Resource.Custom == nil || served.ByGVK(m.Resource.GVK()) != nil {
				kinds[m.Resource] = true // of others there is nothing live yet
			}
		}
	}
	if deletes(w, declared) { // what goes along may be of any kind
		for _, r := range served.All() {
			if r.Storage == nil || r.Custom != nil {
				kinds[r] = true
			}
		}
	}
	if kinds[resource("NodePool")] || kinds[resource("NodeImage")] { // what a plan says of reboots needs all three
		kinds[resource("NodePool")], kinds[resource("NodeImage")], kinds[resource("Node")] = true, true, true
	}
	return kinds
}

// deletes says whether the repository has declared what is declared no more.
func deletes(w reconciler.World, declared map[render.Ref]bool) bool {
	for _, inv := range w.Inventories {
		for i := range inv.Spec.Objects {
			ref, ok := plan.RefOf(&inv.Spec.Objects[i], w.Kinds)
			if ok && inv.Spec.Repository == w.Repository && !declared[ref] {
				return true
			}
		}
	}
	return false
}

// liveObjects is a plan.Live that was read from a server.
type liveObjects map[render.Ref]schema.Object

// Get implements plan.Live.
func (l liveObjects) Get(r *schema.Resource, key schema.Key) (schema.Object, bool) {
	o, ok := l[render.Ref{Resource: r, Key: key}]
	return o, ok
}

// List returns what was read of a kind, by key.
func (l liveObjects) List(r *schema.Resource, namespace string) []schema.Object {
	var out []schema.Object
	for ref, o := range l {
		if ref.Resource == r && (namespace == "" || ref.Key.Namespace == namespace) {
			out = append(out, o)
		}
	}
	slices.SortFunc(out, func(a, b schema.Object) int { return cmp.Compare(schema.KeyOf(a).String(), schema.KeyOf(b).String()) })
	return out
}

// read returns the content of a file of a tree.
func read(t source.Tree, name string) ([]byte, error) {
	f, err := t.File(name)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	r, err := f.Open()
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return data, nil
}
