package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	gopath "path"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/pod-security-admission/api"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/reconciler"
	"github.com/writ-os/writ/reconciler/apply"
	"github.com/writ-os/writ/reconciler/plan"
	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/reconciler/report"
	"github.com/writ-os/writ/reconciler/source"
	"github.com/writ-os/writ/reconciler/validate"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// CheckDir says what is wrong with the manifests of a directory, or of the
// folder Options.Path in it, without a cluster. The error is that of a directory
// that cannot be read.
func CheckDir(ctx context.Context, dir string, o Options) ([]v1alpha1.Finding, error) {
	r, err := ReviewDir(ctx, dir, o)
	if err != nil {
		return nil, err
	}
	return r.Findings, nil
}

// ReviewDir is CheckDir that also says what only is to be known. dir may be one
// file: then what else is in its folder counts only where the file asks for it.
func ReviewDir(ctx context.Context, dir string, o Options) (*reconciler.Reviewed, error) {
	t, err := openFile(dir, o)
	if t == nil && err == nil {
		t, err = openFolder(dir, ".", o)
	}
	if err != nil {
		return nil, err
	}
	return reconciler.Review(ctx, t, o.render())
}

// openFile is a file as a tree; nil where the path is none of a file.
func openFile(name string, o Options) (render.Tree, error) {
	if info, err := os.Stat(name); err != nil || !info.Mode().IsRegular() {
		return nil, nil // openFolder says what is wrong
	}
	if o.Path != "" {
		return nil, Usage("--path is a folder of a directory, and %s is a file", name)
	}
	return reconciler.Tree(source.Dir{Root: filepath.Dir(name)}, filepath.Base(name)), nil
}

// render is how files are read.
func (o Options) render() render.Options {
	out := render.Options{Sandbox: o.Sandbox}
	if o.Keys != nil {
		out.Open = reconciler.Open(o.Keys)
	}
	return out
}

// PlanDir says what the manifests of a directory would do to a cluster as the
// next commit. What is wrong with them is in Plan.Findings. The directory is
// the root of the repository, or the folder that the cluster follows in it.
func PlanDir(ctx context.Context, dir string, c client.Reader, o Options) (*plan.Plan, error) {
	repo, err := readRepository(ctx, c, o.repository())
	if err != nil {
		return nil, err
	}
	t, err := openFolder(dir, folderOf(repo), o)
	if err != nil {
		return nil, err
	}
	return planTree(ctx, t, reconciler.Commit{}, c, o)
}

func planTree(ctx context.Context, t render.Tree, commit reconciler.Commit, c client.Reader, o Options) (*plan.Plan, error) {
	w, err := readWorld(ctx, c, o, t)
	if err != nil {
		return nil, err
	}
	w.Render = o.render()
	_, w.Assumed = c.(assumedCluster)
	return reconciler.Plan(ctx, t, commit, w)
}

// PlanBase says what a directory changes against a commit of its clone. It
// needs no cluster.
func PlanBase(ctx context.Context, dir, base string, o Options) (*plan.Plan, error) {
	to, err := openFolder(dir, ".", o)
	if err != nil {
		return nil, err
	}
	_, path, ok := inClone(dir)
	if !ok {
		return nil, Usage("%s is in no clone of a repository, where the commit %s could be read", dir, base)
	}
	at, err := openClone(dir)
	if err != nil {
		return nil, err
	}
	defer at.close()
	if path = gopath.Join(path, cleanPath(o.Path)); path != "." {
		to = reconciler.Tree(source.Dir{Root: at.dir}, path)
	}
	commit, err := at.resolve(base)
	if err != nil {
		return nil, err
	}
	from, err := at.tree(commit.SHA, path)
	if err != nil {
		return nil, err
	}
	return planBetween(ctx, from, to, "the commit "+short(commit.SHA), o)
}

// planBetween plans a tree against what another declares: that one is applied
// to a cluster in memory, which is empty but for the namespaces that neither
// declares.
func planBetween(ctx context.Context, from, to render.Tree, label string, o Options) (*plan.Plan, error) {
	memory := assumedCluster{client.NewFake(assumed(append(renderedWith(ctx, from, o.Sandbox, nil), renderedWith(ctx, to, o.Sandbox, nil)...))...)}
	before, err := planTree(ctx, from, reconciler.Commit{}, memory, o)
	if err != nil {
		return nil, err
	}
	if len(before.Findings) > 0 {
		return nil, fmt.Errorf("%s has %d findings itself: the first is %s", label, len(before.Findings), report.FindingText(before.Findings[0]))
	}
	if _, err := apply.Do(ctx, memory.Fake, before); err != nil {
		return nil, fmt.Errorf("apply %s in memory: %w", label, err)
	}
	after, err := planTree(ctx, to, reconciler.Commit{}, memory, o)
	if err == nil { // what was there before is not what changes
		after.Warnings = slices.DeleteFunc(after.Warnings, func(w v1alpha1.Finding) bool {
			return slices.ContainsFunc(before.Warnings, func(b v1alpha1.Finding) bool {
				return b.Object == w.Object && b.Rule == w.Rule && b.Field == w.Field && b.Message == w.Message
			})
		})
	}
	return after, err
}

// assumedCluster is a cluster of which nothing is known but what trees declare.
type assumedCluster struct{ *client.Fake }

// assumed are the namespaces that manifests live in and do not declare. Nobody
// knows what they enforce, so they allow all pods.
func assumed(all []render.Manifest) []schema.Object {
	named, declared := map[string]bool{}, map[string]bool{}
	for _, m := range all {
		if m.Resource.Kind == "Namespace" {
			declared[m.Key.Name] = true
		}
		named[m.Key.Namespace] = true
	}
	var out []schema.Object
	for name := range named {
		if name != "" && !declared[name] {
			out = append(out, &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{api.EnforceLevelLabel: string(api.LevelPrivileged)}}})
		}
	}
	return out
}

// openFolder is the folder of a directory that was asked for as a tree, and
// otherwise openDir. What lies beside it in the directory is read as in the
// cluster.
func openFolder(dir, folder string, o Options) (render.Tree, error) {
	path := cleanPath(o.Path)
	if path == "." {
		return openDir(dir, folder)
	}
	if info, err := os.Stat(filepath.Join(dir, filepath.FromSlash(path))); err != nil || !info.IsDir() {
		return nil, Usage("--path %s: there is no such folder in %s: name it relative to the directory", o.Path, dir)
	}
	return reconciler.Tree(source.Dir{Root: dir}, path), nil
}

// cleanPath is a folder relative to its directory; it never leaves it.
func cleanPath(name string) string {
	if name = gopath.Clean("/" + filepath.ToSlash(name))[1:]; name == "" {
		return "."
	}
	return name
}

// openDir is a directory as a tree. Where the cluster follows a folder of the
// repository, that is meant by the root of a clone, and by the folder itself.
func openDir(dir, folder string) (render.Tree, error) {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%s: no such directory", dir)
	case err != nil:
		return nil, err
	case !info.IsDir():
		return nil, fmt.Errorf("%s is not a directory", dir)
	}
	if folder != "." {
		if root, path, ok := inClone(dir); ok && (path == "." || path == folder) {
			return reconciler.Tree(source.Dir{Root: root}, folder), nil
		}
	}
	return reconciler.Tree(source.Dir{Root: dir}, "."), nil
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

// WriteReview writes findings as WriteFindings does, and after them warnings:
// "file:line:col: warning: message". Where nothing is wrong it says how much was
// looked at; name is what was asked for.
func WriteReview(w io.Writer, r *reconciler.Reviewed, name string, o Options) error {
	if o.JSON {
		return writeJSON(w, struct {
			Findings []v1alpha1.Finding `json:"findings"`
			Warnings []v1alpha1.Finding `json:"warnings,omitempty"`
		}{append([]v1alpha1.Finding{}, r.Findings...), r.Warnings})
	}
	if err := WriteFindings(w, r.Findings, o); err != nil {
		return err
	}
	said := slices.Clone(r.Warnings)
	for i := range said {
		said[i].Message = "warning: " + said[i].Message
	}
	if err := WriteFindings(w, said, o); err != nil || len(r.Findings) > 0 {
		return err
	}
	text := fmt.Sprintf("%s in %s: nothing is wrong", counted(r.Objects, "object"), counted(r.Files, "file"))
	switch {
	case r.Objects == 0:
		text = "there are no manifests in " + name
	case len(r.Warnings) > 0:
		text = fmt.Sprintf("%s in %s: nothing is wrong, %s", counted(r.Objects, "object"), counted(r.Files, "file"), counted(len(r.Warnings), "warning"))
	}
	_, err := fmt.Fprintln(w, text)
	return err
}

func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// WritePlan writes a plan, or the findings that keep it from being applied.
func WritePlan(w io.Writer, p *plan.Plan, o Options) error {
	switch {
	case o.JSON:
		return writeJSON(w, p)
	case o.Markdown:
		return p.Markdown(w, "Plan for the repository "+o.repository())
	case len(p.Findings) > 0:
		return WriteFindings(w, p.Findings, o)
	}
	return p.Write(w, plan.Style{Color: o.Color})
}
