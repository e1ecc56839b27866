// Package cli is what the writ command says to people: check, plan, status,
// history and why, as aligned text or JSON. The command itself only parses
// flags.
//
// It watches and reads through a client.Reader with the rights of whoever asks,
// the viewer's are enough; it owns nothing and writes nothing.
package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/reconciler"
	"github.com/writ-os/writ/reconciler/plan"
	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/reconciler/report"
	"github.com/writ-os/writ/reconciler/source"
	"github.com/writ-os/writ/reconciler/validate"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// Options say how to write.
type Options struct {
	JSON  bool
	Color bool
	// Repository to speak of. Default "cluster".
	Repository string
}

func (o Options) repository() string {
	if o.Repository == "" {
		return "cluster"
	}
	return o.Repository
}

// CheckDir says what is wrong with the manifests of a directory, without a
// cluster. The error is that of a directory that cannot be read.
func CheckDir(ctx context.Context, dir string) ([]v1alpha1.Finding, error) {
	t, err := openDir(dir)
	if err != nil {
		return nil, err
	}
	return reconciler.Check(ctx, t)
}

// PlanDir says what the manifests of a directory would do to a cluster as the
// next commit. What is wrong with them is in Plan.Findings.
func PlanDir(ctx context.Context, dir string, c client.Reader, o Options) (*plan.Plan, error) {
	t, err := openDir(dir)
	if err != nil {
		return nil, err
	}
	w, err := readWorld(ctx, t, c, o.repository())
	if err != nil {
		return nil, err
	}
	return reconciler.Plan(ctx, t, reconciler.Commit{}, w)
}

// openDir is a directory as a tree.
func openDir(dir string) (render.Tree, error) {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%s: no such directory", dir)
	case err != nil:
		return nil, err
	case !info.IsDir():
		return nil, fmt.Errorf("%s is not a directory", dir)
	}
	return reconciler.Tree(source.Dir{Root: dir}, "."), nil
}

// readWorld reads what a plan of the tree is made against: the inventories, and
// every kind that the tree or an inventory declares.
func readWorld(ctx context.Context, t render.Tree, c client.Reader, repository string) (reconciler.World, error) {
	w := reconciler.World{Repository: repository}
	inventories, err := client.ListAll[*v1alpha1.Inventory](ctx, c, client.ListOptions{})
	if err != nil {
		return w, fmt.Errorf("list inventories: %w", err)
	}
	w.Inventories = inventories
	live, unreadable := liveObjects{}, map[*schema.Resource]bool{}
	for r := range kindsOf(ctx, t, inventories) {
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

// kindsOf are the kinds that a plan has to look at.
func kindsOf(ctx context.Context, t render.Tree, inventories []*v1alpha1.Inventory) map[*schema.Resource]bool {
	kinds := map[*schema.Resource]bool{schema.ByGVK(render.NamespaceKind): true}
	for _, inv := range inventories {
		for i := range inv.Spec.Objects {
			if ref, ok := plan.RefOf(&inv.Spec.Objects[i]); ok {
				kinds[ref.Resource] = true
			}
		}
	}
	units, _, err := render.Scan(t)
	if err != nil {
		return kinds // the plan itself says what is wrong
	}
	for i := range units {
		if out, err := render.Render(ctx, &units[i]); err == nil {
			for _, m := range out.Manifests {
				kinds[m.Resource] = true
			}
		}
	}
	return kinds
}

// liveObjects is a plan.Live that was read from a server.
type liveObjects map[render.Ref]schema.Object

// Get implements plan.Live.
func (l liveObjects) Get(r *schema.Resource, key schema.Key) (schema.Object, bool) {
	o, ok := l[render.Ref{Resource: r, Key: key}]
	return o, ok
}

// WriteFindings writes findings, one in a line: "file:line:col: message".
func WriteFindings(w io.Writer, findings []v1alpha1.Finding, o Options) error {
	findings = validate.Sort(findings)
	if o.JSON {
		return writeJSON(w, struct {
			Findings []v1alpha1.Finding `json:"findings"`
		}{append([]v1alpha1.Finding{}, findings...)})
	}
	for _, f := range findings {
		if _, err := fmt.Fprintln(w, report.FindingText(f)); err != nil {
			return err
		}
	}
	return nil
}

// WritePlan writes a plan, or the findings that keep it from being applied.
func WritePlan(w io.Writer, p *plan.Plan, o Options) error {
	switch {
	case o.JSON:
		return writeJSON(w, p)
	case len(p.Findings) > 0:
		return WriteFindings(w, p.Findings, o)
	}
	return p.Write(w, plan.Style{Color: o.Color})
}

func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
