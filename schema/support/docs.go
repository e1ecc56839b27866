package support

import (
	"fmt"
	"reflect"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
)

const head = `# What is honoured

Written by ` + "`make generate`" + ` from schema/support, where a test keeps the table whole: each field of Kubernetes' own types is honoured, harmlessly ignored, warned of or refused.

- **API** is what a client is answered. Refused: ` + "`422 Invalid`" + `, with a cause for the path of each field. Warned of: the write is done, and a ` + "`Warning`" + ` header says so.
- **Git** is what ` + "`writ check`, `writ plan` and a push" + ` say, with file, line and column. Refused: the commit does not come in. Warned of: it does, and its Commit carries the warning.
  Accepted: its author says by name that nothing acts on it, in the annotation ` + "`writ.dev/accept: spec.template.spec.hostUsers`" + ` of the object (paths without places in lists, by commas); it is a warning then.
  Left out: what is applied is without the field, since the API would refuse it, and since nothing may take it for granted.
- What was stored before a rule came stays: an update is refused only for what it sets or changes.
- Rows of a pod hold for the templates of Deployments, StatefulSets, DaemonSets, ReplicaSets, ReplicationControllers, Jobs, CronJobs and PodTemplates, and
  those of ` + "`containers[]`" + ` for init containers and ephemeral ones.

`

// kindsInDocs are the kinds in the order of the document.
var kindsInDocs = []any{
	corev1.Pod{}, corev1.Service{}, networkingv1.NetworkPolicy{}, autoscalingv2.HorizontalPodAutoscaler{}, corev1.PersistentVolumeClaim{},
	corev1.PersistentVolume{}, storagev1.StorageClass{}, resourcev1.ResourceClaim{}, resourcev1.ResourceClaimTemplate{}, nodev1.RuntimeClass{}, corev1.Node{},
}

// Document returns docs/fields.md.
func Document() []byte {
	lacking, harmless, good := &lines{}, &lines{}, &strings.Builder{}
	for _, k := range kindsInDocs {
		t := reflect.TypeOf(k)
		d := &document{kind: t.Name(), lacking: lacking, harmless: harmless}
		d.table(t, "")
		if len(d.good) > 0 {
			fmt.Fprintf(good, "**%s**: %s\n\n", d.kind, strings.Join(d.good, ", "))
			for _, n := range d.notes {
				fmt.Fprintf(good, "- %s\n", n)
			}
			good.WriteString("\n")
		}
	}
	for i := range annotationRows {
		a := &annotationRows[i]
		d := &document{kind: "annotation", lacking: lacking, harmless: harmless}
		d.row(&a.row, a.name)
	}
	return []byte(strings.TrimRight(head+
		"## Not honoured\n\n| | field | values | API | Git | why | instead |\n| --- | --- | --- | --- | --- | --- | --- |\n"+lacking.String()+
		"\n## Ignored, and nobody is worse off\n\n| | field | why |\n| --- | --- | --- |\n"+harmless.String()+
		"\n## Honoured\n\n"+good.String(), "\n") + "\n")
}

// document collects the lines of one kind.
type document struct {
	kind              string
	lacking, harmless *lines
	good, notes       []string
}

func (d *document) table(t reflect.Type, at string) {
	tab := tables[t]
	for i := range t.NumField() {
		f := t.Field(i)
		path := at
		if name := jsonName(f); name != "" {
			path = strings.TrimPrefix(at+"."+name, ".")
		}
		if path == "spec.initContainers" || path == "spec.ephemeralContainers" {
			continue // said of containers
		}
		if f.Type.Kind() == reflect.Slice && below(f.Type).Kind() == reflect.Struct && tables[below(f.Type)] != nil {
			path += "[]"
		}
		leaf := !tab.descends(f) || tables[below(f.Type)] == nil
		for _, e := range tab.rows[tableName(f)] {
			d.keyed(e, path, leaf && !tab.way)
		}
		if !leaf {
			d.table(below(f.Type), path)
		}
	}
}

func (d *document) keyed(e keyed, path string, leaf bool) {
	if e.key != "" {
		path += "[" + e.key + "]"
	}
	if e.row.Verdict == Honoured {
		if leaf {
			d.good = append(d.good, "`"+path+"`")
		}
		if e.row.Why != "" {
			d.notes = append(d.notes, "`"+path+"`: "+e.row.Why)
		}
		return
	}
	d.row(e.row, path)
}

func (d *document) row(r *Row, path string) {
	if r.Verdict == Ignored {
		d.harmless.add(r, d.kind, path)
		return
	}
	d.lacking.add(r, d.kind, path)
}

// inGit is what is done about a field in Git.
func inGit(r *Row) string {
	switch {
	case r.Acceptable() && r.LeftOut:
		return "refused, or accepted and left out"
	case r.Acceptable():
		return "refused, or accepted"
	}
	return r.Git.String()
}

// lines are those of a table: one of each kind for each row.
type lines struct{ all []*line }

type line struct {
	row   *Row
	kind  string
	paths []string
}

func (l *lines) add(r *Row, kind, path string) {
	for _, have := range l.all {
		if have.row == r && have.kind == kind {
			have.paths = append(have.paths, path)
			return
		}
	}
	l.all = append(l.all, &line{r, kind, []string{path}})
}

func (l *lines) String() string {
	var b strings.Builder
	for _, n := range l.all {
		fields := "`" + strings.Join(n.paths, "`, `") + "`"
		if n.row.Verdict == Ignored {
			fmt.Fprintf(&b, "| %s | %s | %s |\n", n.kind, fields, n.row.Why)
		} else {
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s |\n", n.kind, fields, n.row.Values, n.row.API, inGit(n.row), n.row.Why, n.row.Instead)
		}
	}
	return b.String()
}
