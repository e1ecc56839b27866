package render

import (
	"errors"
	"fmt"

	"github.com/writ-os/writ/schema/v1alpha1"
)

// Limits of what one unit may make in a child. The server keeps what a child
// made, so these bound the memory of the server.
const (
	maxValues = 2 << 20   // values in manifests
	maxTexts  = maxOutput // bytes of their texts
)

// answer is what a child made of a unit.
type answer struct {
	Findings []v1alpha1.Finding
	Made     int      // values that the server makes manifests of
	Nodes    nodes    // each with its namespace, and how many findings came before
	Opened   []string // files, in the order in which they were opened
	Error    string
}

// left is what a child leaves to the server: the values that are manifests.
type left struct {
	w             nodeWriter
	made          int
	values, texts int
	full          bool
}

// leave keeps a manifest for the server.
func (out *Rendered) leave(n *node) {
	l := &out.left
	if l.full {
		return
	}
	l.weigh(n)
	if l.full = l.values > maxValues || l.texts > maxTexts; l.full {
		out.find(v1alpha1.Finding{File: out.unit.Path, Rule: "TooLarge",
			Message: fmt.Sprintf("the %s makes more than %d values or %s of text", out.unit.what(), maxValues, megabytes(maxTexts)), Hint: "split it"})
		return
	}
	l.made++
	l.w.node(out.home)
	l.w.uint(len(out.Findings))
	l.w.node(n)
}

// weigh counts values and texts, and not far beyond the bounds.
func (l *left) weigh(n *node) {
	l.values++
	l.texts += len(n.text)
	if l.values > maxValues || l.texts > maxTexts {
		return
	}
	for i := range n.fields {
		l.texts += len(n.fields[i].key)
		l.weigh(n.fields[i].val)
	}
	for _, item := range n.items {
		l.weigh(item)
	}
}

// run renders the unit of a job, in the child.
func (j *job) run() *answer {
	a := &answer{}
	u, err := j.unit(func(path string) { a.Opened = append(a.Opened, path) })
	if err == nil {
		var out *Rendered
		out, err = run(&Rendered{unit: u}, j.Data)
		a.Findings, a.Made, a.Nodes = out.Findings[:min(len(out.Findings), maxFindings)], out.left.made, out.left.w.nodes
	}
	if err != nil {
		a.Error = err.Error()
	}
	return a
}

// replay makes of an answer what the unit is in the server.
func (a *answer) replay(base *Rendered, opened map[string]Opened) (*Rendered, error) {
	out := base.again()
	for _, p := range a.Opened {
		out.note(p, opened[p])
	}
	if a.Error != "" {
		return out, errors.New(a.Error)
	}
	r := newNodeReader(a.Nodes, maxValues)
	done := 0
	for range a.Made { // each takes bytes, and ends it when there are none
		home, after := r.node(0), min(r.uint(), maxFindings) // nobody sees more findings
		n := r.child(0)
		if home != nil && home.kind != stringNode || r.err != nil || after < done || after > len(a.Findings) {
			return nil, errWire
		}
		out.Findings = append(out.Findings, a.Findings[done:after]...)
		done, out.home = after, home
		manifest(out, n, n.str("apiVersion"), n.str("kind"))
	}
	out.home = nil
	out.Findings = append(out.Findings, a.Findings[done:]...)
	return out, nil
}
