package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/reconciler"
	"github.com/writ-os/writ/reconciler/plan"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// A repository of which one folder is followed, and what it reads beside it.
var besideFolder = map[string]string{
	"base/kustomization.yaml":              "resources: [config.yaml]\n",
	"base/config.yaml":                     "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: base, namespace: default}\ndata: {a: b}\n",
	"clusters/home/web/kustomization.yaml": "resources: [../../../base]\nnamePrefix: home-\n",
	"clusters/home/apps/x.yaml":            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, namespace: default, lables: {a: b}}\n",
	"clusters/home/policy/own.cue":         "package policy\nrules: \"data\": {match: {kind: \"ConfigMap\", name: \"home-*\"}, message: \"a is c\", require: data: a: \"c\"}\n",
	"policy/all.cue":                       "package policy\nrules: \"team\": {match: {kind: \"ConfigMap\", name: \"home-*\"}, message: \"say whose it is\", require: metadata: labels: team!: string}\n",
	"clusters/away/broken.yaml":            "a: [",
}

func inGit(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=Jane", "-c", "user.email=jane@example.com", "-C", dir}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// TestCheckFolderAsCommit: a folder of a directory has the findings that a
// commit of it has in the cluster: of the same files, at the same lines. Links
// are judged by where they lead from there.
func TestCheckFolderAsCommit(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, besideFolder)
	for name, target := range map[string]string{"clusters/home/inside": "apps", "clusters/home/outside": "../away", "clusters/away/out": "/etc/passwd"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	inGit(t, dir, "init", "-q", "-b", "main")
	inGit(t, dir, "add", ".")
	inGit(t, dir, "commit", "-q", "-m", "All")
	c, err := openClone(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	for _, path := range []string{"clusters/home", "clusters/away", "base", "policy", "."} {
		committed, err := c.tree(inGit(t, dir, "rev-parse", "HEAD"), path)
		if err != nil {
			t.Fatal(err)
		}
		want, err := reconciler.Check(t.Context(), committed)
		if err != nil {
			t.Fatal(err)
		}
		got, err := CheckDir(t.Context(), dir, Options{Path: path})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-commit +folder):\n%s", path, diff)
		}
		if path != "clusters/home" {
			continue
		}
		var places []string
		for _, f := range got {
			places = append(places, f.File+" "+f.Rule)
		}
		if diff := cmp.Diff([]string{"base/config.yaml team", "base/config.yaml data", "clusters/home/apps/x.yaml UnknownField", "clusters/home/outside Symlink"}, places, cmpopts.SortSlices(strings.Compare)); diff != "" {
			t.Error(diff)
		}
	}
	if _, err := CheckDir(t.Context(), dir, Options{Path: "nowhere"}); err == nil || !strings.Contains(err.Error(), "--path nowhere: there is no such folder") {
		t.Error(err)
	}
}

// TestPlanFolder: plan reads the folder that was asked for, or the one that the
// Repository names, with what lies beside it.
func TestPlanFolder(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"base/kustomization.yaml": besideFolder["base/kustomization.yaml"], "base/config.yaml": besideFolder["base/config.yaml"],
		"clusters/home/web/kustomization.yaml": besideFolder["clusters/home/web/kustomization.yaml"], "clusters/away/broken.yaml": "a: ["})
	inGit(t, dir, "init", "-q", "-b", "main")
	inGit(t, dir, "add", ".")
	inGit(t, dir, "commit", "-q", "-m", "All")
	repository := &v1alpha1.Repository{}
	repository.Name, repository.Spec.Path = "cluster", "clusters/home"
	for name, plan := range map[string]func() (*plan.Plan, error){
		"asked for": func() (*plan.Plan, error) {
			return PlanDir(t.Context(), dir, client.NewFake(), Options{Path: "clusters/home/"})
		},
		"of the Repository": func() (*plan.Plan, error) {
			return PlanDir(t.Context(), dir, client.NewFake(repository), Options{})
		},
	} {
		p, err := plan()
		if err != nil || len(p.Findings) > 0 {
			t.Fatal(name, err, p)
		}
		if len(p.Ops) != 1 || p.Ops[0].Head.Ref.String() != "ConfigMap/default/home-base" {
			t.Errorf("%s: %+v", name, p.Ops)
		}
	}
	write(t, dir, map[string]string{"base/config.yaml": strings.Replace(besideFolder["base/config.yaml"], "a: b", "a: c", 1)})
	p, err := PlanBase(t.Context(), dir, "HEAD", Options{Path: "clusters/home"})
	if err != nil || len(p.Findings) > 0 || len(p.Ops) != 1 || len(p.Ops[0].Diffs) != 1 || p.Ops[0].Diffs[0].Path != "data.a" {
		t.Errorf("%v %+v", err, p)
	}
}
