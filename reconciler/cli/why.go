package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/reconciler/report"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// origin is where an object comes from.
type origin struct {
	Object     string `json:"object"`
	Repository string `json:"repository"`
	File       string `json:"file"`
	Line       int    `json:"line"`
	// Unit is the file that the object was rendered from, where it is not declared
	// by itself: of a HelmRelease, a kustomization, a CUE package.
	Unit    string `json:"unit,omitempty"`
	Commit  string `json:"commit"`
	Author  string `json:"author"`
	Time    string `json:"time"`
	Message string `json:"message,omitempty"`

	// Through are the objects between the one that was asked for and this one,
	// which it was made of: a Pod, its ReplicaSet.
	Through []string `json:"through,omitempty"`

	Field *fieldOrigin `json:"field,omitempty"`
	// Note says what is missing for a better answer.
	Note string `json:"note,omitempty"`

	ref  render.Ref
	unit string
}

// fieldOrigin is where one field of an object comes from.
type fieldOrigin struct {
	Path string `json:"path"`
	// Declared and Live are what Git and the cluster have, as JSON; "" where
	// they have nothing.
	Declared string `json:"declared,omitempty"`
	Live     string `json:"live,omitempty"`
	File     string `json:"file,omitempty"`
	Line     int    `json:"line,omitempty"`
	// Text is the line itself, Blame the commit that wrote it.
	Text  string      `json:"text,omitempty"`
	Blame *blameOf    `json:"blame,omitempty"`
	Last  *lastChange `json:"lastChange,omitempty"`
}

// blameOf is the commit that a line comes from.
type blameOf struct {
	Commit  string `json:"commit"`
	Author  string `json:"author"`
	Time    string `json:"time"`
	Message string `json:"message"`
	// Boundary says that the clone's history ends there.
	Boundary bool `json:"boundary,omitempty"`
}

// lastChange is the last recorded change of a field.
type lastChange struct {
	Commit string `json:"commit"`
	Path   string `json:"path"`
	Old    string `json:"old,omitempty"`
	New    string `json:"new,omitempty"`
}

// Why writes which file and line of which commit declare an object, as
// "deploy/web" or "Deployment/web", or a field of one, as
// "deploy/web.spec.replicas". Of a live object that Git does not declare it writes
// which declared one it was made of. Namespace may be "" for all. The error is
// also that of an object that is nowhere.
func Why(ctx context.Context, c client.Reader, o Options, namespace, name string, w io.Writer) error {
	kind, name, ok := strings.Cut(name, "/")
	if !ok {
		return Usage("%q: write KIND/NAME or KIND/NAME.FIELD, as in deploy/web.spec.replicas", kind)
	}
	r := resource(kind)
	inventories, err := client.ListAll[*v1alpha1.Inventory](ctx, c, client.ListOptions{})
	if err != nil {
		return fmt.Errorf("list inventories: %w", err)
	}
	text := name
	name, field, found := origins(inventories, r, kind, namespace, text)
	if r == nil && len(found) == 0 {
		return Usage("there is no kind %q, and no commit declares one", kind)
	}
	fields := slices.Repeat([]string{field}, len(found))
	var others []made
	if len(found) == 0 {
		if found, fields, others, err = throughOwners(ctx, c, inventories, r, namespace, text); err != nil {
			return err
		}
	}
	if len(found)+len(others) == 0 {
		return fmt.Errorf("%s/%s is neither declared in Git nor in the cluster", r.Kind, name)
	}
	at, err := nearClone(o.Clone)
	if err != nil {
		return err
	}
	defer at.close()
	if at != nil {
		at.box = o.Sandbox
	}
	for i := range found {
		if err := found[i].complete(ctx, c, at, fields[i]); err != nil {
			return err
		}
	}
	if o.JSON {
		return writeJSON(w, append([]origin{}, found...))
	}
	var b strings.Builder
	for i := range found {
		found[i].write(&b, o)
	}
	for i := range others {
		others[i].write(&b)
	}
	_, err = io.WriteString(w, b.String())
	return err
}

// origins finds the objects of a kind and name, and what of the name is a
// field. A kind that is not built in is one that an inventory names.
func origins(inventories []*v1alpha1.Inventory, r *schema.Resource, kind, namespace, text string) (name, field string, found []origin) {
	each := func(yes func(*v1alpha1.Inventory, *v1alpha1.InventoryObject)) {
		for _, inv := range inventories {
			for i := range inv.Spec.Objects {
				obj := &inv.Spec.Objects[i]
				same := r != nil && obj.Kind == r.Kind && obj.Group == r.Group || r == nil && strings.EqualFold(obj.Kind, kind)
				if same && (namespace == "" || obj.Namespace == "" || obj.Namespace == namespace) {
					yes(inv, obj)
				}
			}
		}
	}
	names := map[string]bool{}
	each(func(_ *v1alpha1.Inventory, obj *v1alpha1.InventoryObject) { names[obj.Name] = true })
	name, field = splitField(text, func(s string) bool { return names[s] })
	each(func(inv *v1alpha1.Inventory, obj *v1alpha1.InventoryObject) {
		if obj.Name == name {
			found = append(found, originOf(inv, obj))
		}
	})
	return name, field, found
}

func originOf(inv *v1alpha1.Inventory, obj *v1alpha1.InventoryObject) origin {
	key := schema.Key{Namespace: obj.Namespace, Name: obj.Name}
	out := origin{Object: render.ObjectName(obj.Kind, key), Repository: inv.Spec.Repository, unit: inv.Spec.File,
		File: inv.Spec.File, Line: obj.Line, Commit: inv.Spec.Commit, Author: inv.Spec.Author, Time: stamp(inv.Spec.Time.Time)}
	if obj.File != "" && obj.File != inv.Spec.File {
		out.File, out.Unit = obj.File, inv.Spec.File
	}
	out.ref = render.Ref{Resource: &schema.Resource{Group: obj.Group, Version: obj.Version, Kind: obj.Kind, Namespaced: obj.Namespace != ""}, Key: key}
	return out
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 MST") }

// complete adds what is known of the commit, and of the field.
func (o *origin) complete(ctx context.Context, c client.Reader, at *clone, field string) error {
	all, err := commits(ctx, c, o.Repository)
	if err != nil {
		return err
	}
	// The message is kept for the newest commits only.
	if i := slices.IndexFunc(all, func(c *v1alpha1.Commit) bool { return c.Spec.SHA == o.Commit }); i >= 0 {
		o.Message = report.Title(all[i].Spec.Message)
	} else if at.has(o.Commit) {
		if known, err := at.src.Commit(o.Commit); err == nil {
			o.Message = report.Title(known.Message)
		}
	}
	if field == "" {
		return nil
	}
	o.Field = &fieldOrigin{Path: field, Last: lastChangeOf(all, o.Object, field)}
	if err := o.readLive(ctx, c, field); err != nil {
		return err
	}
	if at == nil {
		o.Note = "the line of the field is found in a clone: run this in one, or name it with --repo"
		return nil
	}
	return o.declared(ctx, c, at, all)
}

// readLive reads the field of the live object, if the viewer may.
func (o *origin) readLive(ctx context.Context, c client.Reader, field string) error {
	r := schema.ByGVK(o.ref.Resource.GVK())
	if r == nil || r.Kind == "Secret" {
		return nil
	}
	o.ref.Resource = r
	live, err := c.Get(ctx, r, o.ref.Key)
	if err != nil {
		return nil // it may be gone, or not ours to see; Git's side is still to tell
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(live)
	if err != nil {
		return fmt.Errorf("read %s: %w", o.Object, err)
	}
	if v, ok := valueAt(fields, field); ok {
		o.Field.Live = compact(v)
	}
	return nil
}

// declared finds the line of the field in the commit that is applied, and
// blames it.
func (o *origin) declared(ctx context.Context, c client.Reader, at *clone, all []*v1alpha1.Commit) error {
	repo, err := readRepository(ctx, c, o.Repository)
	if err != nil {
		return err
	}
	sha, path := o.Commit, "."
	if repo != nil {
		path = folderOf(repo)
		if at.has(repo.Status.Applied) {
			sha = repo.Status.Applied
		}
	}
	if !at.has(sha) {
		o.Note = fmt.Sprintf("the clone %s does not have the commit %s: git fetch brings it", at.dir, short(sha))
		return nil
	}
	t, err := at.tree(sha, path)
	if err != nil {
		return err
	}
	m, err := at.find(ctx, t, o.unit, o.ref)
	if err != nil {
		return err
	}
	if m == nil {
		o.Note = fmt.Sprintf("the commit %s does not declare it any more", short(sha))
		return nil
	}
	return o.locate(ctx, at, sha, m)
}

func (o *origin) locate(ctx context.Context, at *clone, sha string, m *manifest) error {
	var fields any
	if err := json.Unmarshal(m.JSON, &fields); err != nil {
		return fmt.Errorf("read manifest of %s: %w", o.Object, err)
	}
	f := o.Field
	v, ok := valueAt(fields, f.Path)
	if !ok && m.Resource.Kind == "Secret" {
		// The renderer has put what stringData declares into data.
		if rest, is := strings.CutPrefix(f.Path, "stringData."); is {
			f.Path = "data." + rest
			v, ok = valueAt(fields, f.Path)
		}
	}
	switch {
	case !ok && f.Live == "" && m.Resource.Kind != "Secret":
		o.Note = "neither Git nor the cluster has such a field"
		return nil
	case !ok:
		o.Note = "no line declares the field: it has its default, or a controller has set it"
		return nil
	}
	f.Declared = compact(v)
	if m.Resource.Kind == "Secret" {
		f.Declared = "" // is not shown
	}
	pos := render.Locate(m.Expr(), f.Path)
	if !pos.IsValid() {
		return nil
	}
	f.File, f.Line = pos.Filename, pos.Line
	b, err := at.src.Blame(ctx, sha, f.File, f.Line)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it is made, not written
	}
	if err != nil {
		return fmt.Errorf("blame %s:%d: %w", f.File, f.Line, err)
	}
	if m.Resource.Kind != "Secret" {
		f.Text = strings.TrimSpace(b.Text)
	}
	f.Blame = &blameOf{Commit: b.SHA, Author: b.Author, Time: stamp(b.Time), Message: report.Title(b.Message), Boundary: b.Boundary}
	return nil
}

// lastChangeOf is the newest recorded change of a field or a part of it.
func lastChangeOf(all []*v1alpha1.Commit, object, field string) *lastChange {
	for _, c := range all {
		if c.Status.AppliedTime == nil {
			continue
		}
		for _, ch := range c.Status.Changes {
			for _, f := range ch.Fields {
				if ch.Object == object && (within(f.Path, field) || f.Path != "" && within(field, f.Path)) {
					return &lastChange{Commit: c.Spec.SHA, Path: f.Path, Old: f.Old, New: f.New}
				}
			}
		}
	}
	return nil
}

// write is the origin for people.
func (o *origin) write(b *strings.Builder, opt Options) {
	fmt.Fprintf(b, "%s\n", paint(opt, bold, o.Object))
	row := func(label, format string, args ...any) {
		fmt.Fprintf(b, "  %-12s %s\n", label, strings.TrimRight(fmt.Sprintf(format, args...), " "))
	}
	if len(o.Through) > 0 {
		row("made", "%s", strings.Join(o.Through, ", made of "))
	}
	row("declared in", "%s:%d  (repository %s)", o.File, o.Line, o.Repository)
	if o.Unit != "" {
		row("rendered by", "%s", o.Unit)
	}
	row("since", "%s  %s  by %s, %s", short(o.Commit), o.Message, author(o.Author), o.Time)
	if f := o.Field; f != nil {
		f.write(row, opt)
	}
	if o.Note != "" {
		row("note", "%s", o.Note)
	}
}

func (f *fieldOrigin) write(row func(label, format string, args ...any), opt Options) {
	switch {
	case f.Declared != "" && f.Live != "" && f.Declared != f.Live:
		row("field", "%s = %s in Git, %s in the cluster", f.Path, cut(f.Declared), paint(opt, yellow, cut(f.Live)))
	case f.Declared != "":
		row("field", "%s = %s", f.Path, cut(f.Declared))
	case f.Live != "":
		row("field", "%s = %s in the cluster", f.Path, cut(f.Live))
	default:
		row("field", "%s", f.Path)
	}
	if f.Line > 0 {
		row("written in", "%s:%d  %s", f.File, f.Line, f.Text)
	}
	if b := f.Blame; b != nil {
		older := ""
		if b.Boundary {
			older = " or before: the clone's history begins there"
		}
		row("line from", "%s  %s  by %s, %s%s", short(b.Commit), b.Message, author(b.Author), b.Time, older)
	}
	if l := f.Last; l != nil {
		row("last change", "%s  %s", short(l.Commit), arrow(opt, l.Path, l.Old, l.New))
	}
}

// cut keeps a value within a line.
func cut(v string) string {
	if r := []rune(v); len(r) > 60 {
		return string(r[:57]) + "..."
	}
	return v
}

// arrow writes one field that changes.
func arrow(o Options, path, old, new string) string {
	switch {
	case path == "":
		return "changed (hidden)"
	case old == "":
		return fmt.Sprintf("%s: %s", path, paint(o, green, cut(new)))
	case new == "":
		return fmt.Sprintf("%s: %s removed", path, paint(o, red, cut(old)))
	}
	return fmt.Sprintf("%s: %s -> %s", path, paint(o, red, cut(old)), paint(o, green, cut(new)))
}

// resource finds a kind by any of the names that kubectl knows.
func resource(name string) *schema.Resource {
	lower := strings.ToLower(name)
	for _, r := range schema.Resources {
		if lower == strings.ToLower(r.Kind) || lower == r.Plural || lower == r.Singular || slices.Contains(r.ShortNames, lower) || lower == r.String() {
			return r
		}
	}
	return nil
}
