package plan

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/writ-os/writ/schema/v1alpha1"
)

// Style says how a plan is written.
type Style struct {
	Color bool
	// MaxObjects is how many objects are listed; 0 means all.
	MaxObjects int
}

const (
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	red    = "\x1b[31m"
	bold   = "\x1b[1m"
	reset  = "\x1b[0m"
)

func (s Style) paint(color, text string) string {
	if !s.Color {
		return text
	}
	return color + text + reset
}

// marks are the signs and colours of the actions.
var marks = map[Action]struct{ sign, color string }{Create: {"+", green}, Update: {"~", yellow}, Delete: {"-", red}, Replace: {"±", red}}

// maxValue is how much of a value is shown in a line.
const maxValue = 60

// Write writes the plan for people: every object with the fields that change
// and the place where it is declared, what follows from it, and the counts.
// Findings are left to the caller.
func (p *Plan) Write(w io.Writer, s Style) error {
	var b strings.Builder
	width := 0
	for i := range p.Ops {
		width = max(width, len(p.Ops[i].Ref.String()))
	}
	for i := range p.Ops {
		if s.MaxObjects > 0 && i == s.MaxObjects {
			fmt.Fprintf(&b, "  ... and %d more\n", len(p.Ops)-i)
			break
		}
		p.Ops[i].write(&b, s, min(width, 60))
	}
	for i, c := range p.Consequences {
		if i == 0 && len(p.Ops) > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "%s %s: %s\n", s.paint(red, "!"), c.Object, c.Message)
	}
	for _, f := range p.Warnings {
		fmt.Fprintf(&b, "%s %s: %s\n", s.paint(yellow, "warning:"), place(f), advised(f))
	}
	if len(p.Ops) > 0 {
		b.WriteString("\n")
	}
	b.WriteString(s.paint(bold, p.Summary()) + "\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// advised is a warning with what to do about it.
func advised(f v1alpha1.Finding) string {
	if f.Hint == "" {
		return f.Message
	}
	return f.Message + " (" + f.Hint + ")"
}

// Summary is the plan in one line.
func (p *Plan) Summary() string {
	if len(p.Ops) == 0 {
		return fmt.Sprintf("Nothing to do: all %d objects are as declared.", p.Declared)
	}
	replaced := ""
	if n := p.Count(Replace); n > 0 {
		replaced = fmt.Sprintf("%d to make anew, ", n)
	}
	return fmt.Sprintf("%d to create, %d to change, %s%d to delete, %d unchanged.", p.Count(Create), p.Count(Update), replaced, p.Count(Delete), p.Unchanged)
}

func (o *Op) write(b *strings.Builder, s Style, width int) {
	m := marks[o.Action]
	where := fmt.Sprintf("%s:%d", o.File, o.Line)
	if o.Action == Delete {
		where = "was " + where
	}
	fmt.Fprintf(b, "%s %-*s  %s\n", s.paint(m.color, m.sign), width, o.Ref.String(), where)
	if o.Action == Update && len(o.Diffs) == 0 {
		b.WriteString("      is as declared; Git takes over its fields\n")
	}
	for _, d := range o.Diffs {
		switch {
		case d.Path == "":
			fmt.Fprintf(b, "      changed %s\n", hidden)
		case d.Old == "":
			fmt.Fprintf(b, "      %s: %s\n", d.Path, s.paint(green, shorten(d.New)))
		case d.New == "":
			fmt.Fprintf(b, "      %s: %s removed\n", d.Path, s.paint(red, shorten(d.Old)))
		default:
			fmt.Fprintf(b, "      %s: %s -> %s\n", d.Path, s.paint(red, shorten(d.Old)), s.paint(green, shorten(d.New)))
		}
	}
}

func shorten(v string) string {
	if r := []rune(v); len(r) > maxValue {
		return string(r[:maxValue-3]) + "..."
	}
	return v
}

// opJSON is how an op looks in JSON.
type opJSON struct {
	Action     Action `json:"action"`
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
	File       string `json:"file"`
	Line       int    `json:"line"`
	Diffs      []Diff `json:"diffs,omitempty"`
}

// MarshalJSON implements json.Marshaler.
func (p *Plan) MarshalJSON() ([]byte, error) {
	out := struct {
		Objects      []opJSON           `json:"objects"`
		Consequences []Consequence      `json:"consequences,omitempty"`
		Findings     []v1alpha1.Finding `json:"findings,omitempty"`
		Warnings     []v1alpha1.Finding `json:"warnings,omitempty"`
		Create       int                `json:"create"`
		Update       int                `json:"update"`
		Delete       int                `json:"delete"`
		Replace      int                `json:"replace"`
		Unchanged    int                `json:"unchanged"`
		Shadowed     int                `json:"shadowed"`
	}{[]opJSON{}, p.Consequences, p.Findings, p.Warnings, p.Count(Create), p.Count(Update), p.Count(Delete), p.Count(Replace), p.Unchanged, p.Shadowed}
	for i := range p.Ops {
		o := &p.Ops[i]
		out.Objects = append(out.Objects, opJSON{o.Action, o.Resource.APIVersion(), o.Resource.Kind, o.Key.Namespace, o.Key.Name, o.File, o.Line, o.Diffs})
	}
	return json.Marshal(out)
}
