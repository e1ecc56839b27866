package render

import (
	"context"
	"fmt"
	"iter"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// treeOf reads a tree of testdata.
func treeOf(t testing.TB, name string) memTree {
	t.Helper()
	ar, err := txtar.ParseFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	tree := memTree{}
	for _, f := range ar.Files {
		if f.Name != "want" {
			tree[f.Name] = string(f.Data)
		}
	}
	return tree
}

// manifests renders a tree that has nothing wrong, by object name.
func manifests(t testing.TB, tree Tree, options ...Options) map[string]*Manifest {
	t.Helper()
	units, findings, err := Scan(tree, options...)
	if err != nil || len(findings) > 0 {
		t.Fatal(err, findings)
	}
	out := map[string]*Manifest{}
	for i := range units {
		r, err := Render(context.Background(), &units[i])
		if err != nil || len(r.Findings) > 0 {
			t.Fatal(err, r.Findings)
		}
		for j := range r.Manifests {
			out[r.Manifests[j].Object()] = &r.Manifests[j]
		}
	}
	return out
}

// TestKustomizePlaces: a field of a built object points to where an author
// changes it.
func TestKustomizePlaces(t *testing.T) {
	tree := treeOf(t, "kustomize.txtar")
	all := manifests(t, tree)
	for _, c := range []struct{ object, field, want string }{
		{"Deployment/shop/prod-web", "metadata.name", "apps/base/deployment.yaml: name: web"},
		{"Deployment/shop/prod-web", "metadata.namespace", "apps/prod/kustomization.yaml: shop"},
		{"Deployment/shop/prod-web", "metadata.labels.env", "apps/prod/kustomization.yaml: prod"},
		{"Deployment/shop/prod-web", "metadata.annotations.team", "apps/prod/kustomization.yaml: shop"},
		{"Deployment/shop/prod-web", "spec.replicas", "apps/prod/kustomization.yaml: 3"},
		{"Deployment/shop/prod-web", "spec.template.spec.containers[0].image", "apps/prod/kustomization.yaml: 1.4.2"},
		{"Deployment/shop/prod-web", "spec.template.spec.containers[0].resources.limits.memory", "apps/prod/limits.yaml: memory: 64Mi"},
		{"Deployment/shop/prod-web", "spec.template.spec.containers[1].image", "components/metrics/sidecar.yaml: image: example.com/metrics:1"},
		{"Deployment/shop/prod-web", "spec.template.spec.terminationGracePeriodSeconds", "apps/prod/kustomization.yaml: terminationGracePeriodSeconds: 42"},
		{"Deployment/shop/prod-web", "spec.template.spec.containers[0].volumeMounts[0].mountPath", "apps/base/deployment.yaml: mountPath: /etc/web"},
		{"Service/shop/prod-web", "spec.ports[0].port", "apps/prod/kustomization.yaml: 8443"},
		{"Service/shop/prod-web", "spec.ports[0].targetPort", "apps/base/service.yaml: targetPort: 8080"},
		{"ConfigMap/shop/prod-settings-m2gf6tk6bf", "data.LEVEL", "apps/base/kustomization.yaml: LEVEL=info"},
		{"ConfigMap/shop/prod-settings-m2gf6tk6bf", "metadata.name", "apps/base/kustomization.yaml: name: settings"},
	} {
		m := all[c.object]
		if m == nil {
			t.Errorf("no %s", c.object)
			continue
		}
		p := Locate(m.Expr(), c.field)
		lines := strings.Split(tree[p.Filename], "\n")
		got := p.Filename
		if p.Line >= 1 && p.Line <= len(lines) && p.Column <= len(lines[p.Line-1]) {
			got = fmt.Sprintf("%s: %s", p.Filename, lines[p.Line-1][p.Column-1:])
		}
		if got != c.want {
			t.Errorf("%s %s is at %s:%d:%d %q, want %q", c.object, c.field, p.Filename, p.Line, p.Column, got, c.want)
		}
	}
}

// repository is a tree of one folder of a larger one.
type repository struct {
	memTree
	all memTree
}

func (r repository) File(p string) (File, error) { return r.all.file(p) }

func (r repository) Folder(dir string) iter.Seq2[File, error] { return r.all.folder(dir) }

// TestKustomizeOutside: bases beside the followed folder are read, and the
// hash of the unit knows them.
func TestKustomizeOutside(t *testing.T) {
	all := treeOf(t, "kustomize.txtar")
	followed := memTree{}
	for p, content := range all {
		if strings.HasPrefix(p, "apps/prod/") {
			followed[p] = content
		}
	}
	if _, ok := manifests(t, repository{followed, all})["Deployment/shop/prod-web"]; !ok {
		t.Fatal("not rendered")
	}
	units, _, err := Scan(repository{followed, all})
	if err != nil || len(units) != 1 {
		t.Fatal(err, units)
	}
	before := units[0].Hash
	for p := range all {
		changed := memTree{}
		for q, content := range all {
			changed[q] = content
		}
		changed[p] += "\n# changed\n"
		part := memTree{}
		for q := range followed {
			part[q] = changed[q]
		}
		units, _, err := Scan(repository{part, changed})
		if err != nil {
			t.Fatal(err)
		}
		unread := p == "apps/base/unlisted.yaml" || p == "plain/cm.yaml"
		if (units[0].Hash == before) != unread {
			t.Errorf("%s changed: hash %s, before %s", p, units[0].Hash, before)
		}
	}
}
