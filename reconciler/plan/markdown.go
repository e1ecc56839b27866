package plan

import (
	"fmt"
	"io"
	"strings"

	"github.com/writ-os/writ/schema/v1alpha1"
)

// maxComment keeps a plan within what forges take as a comment (65,536 bytes).
const maxComment = 60_000

// Markdown writes the plan for a comment on a pull request: the counts, what
// is at risk, and a diff for each object, folded. What does not fit is counted.
func (p *Plan) Markdown(w io.Writer, title string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\n", title)
	p.markdownFindings(&b)
	if len(p.Findings) == 0 {
		fmt.Fprintf(&b, "**%s**\n", p.Summary())
	}
	for i, c := range p.Consequences {
		if i == 0 {
			b.WriteString("\n| | object | what follows |\n|---|---|---|\n")
		}
		fmt.Fprintf(&b, "| %s | `%s` | %s |\n", c.Kind, cell(c.Object), cell(c.Message))
	}
	left := 0
	for i := range p.Ops {
		var o strings.Builder
		p.Ops[i].markdown(&o)
		if b.Len()+o.Len() > maxComment {
			left = len(p.Ops) - i
			break
		}
		b.WriteString(o.String())
	}
	if left > 0 {
		fmt.Fprintf(&b, "\n... and %d more objects. `writ plan` shows all.\n", left)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (p *Plan) markdownFindings(b *strings.Builder) {
	if len(p.Findings) == 0 {
		return
	}
	fmt.Fprintf(b, "**Refused: %d finding(s).** Nothing would change.\n\n| where | what | what to do |\n|---|---|---|\n", len(p.Findings))
	for i, f := range p.Findings {
		if b.Len() > maxComment/2 {
			fmt.Fprintf(b, "\n... and %d more.\n", len(p.Findings)-i)
			break
		}
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", cell(place(f)), cell(f.Message), cell(f.Hint))
	}
}

func place(f v1alpha1.Finding) string {
	switch {
	case f.File == "":
		return "commit"
	case f.Line == 0:
		return f.File
	}
	return fmt.Sprintf("%s:%d:%d", f.File, f.Line, f.Column)
}

// words are what the actions are called in a heading.
var words = map[Action]string{Create: "create", Update: "change", Delete: "delete", Replace: "delete and make anew"}

func (o *Op) markdown(b *strings.Builder) {
	fmt.Fprintf(b, "\n<details><summary><b>%s</b> <code>%s</code> (%s:%d)</summary>\n\n", words[o.Action], escape(o.Ref.String()), escape(o.File), o.Line)
	if len(o.Diffs) > 0 {
		b.WriteString("```diff\n")
		for _, d := range o.Diffs {
			if d.Old != "" {
				fmt.Fprintf(b, "- %s: %s\n", d.Path, fence(shorten(d.Old)))
			}
			if d.New != "" {
				fmt.Fprintf(b, "+ %s: %s\n", d.Path, fence(shorten(d.New)))
			}
		}
		b.WriteString("```\n")
	}
	b.WriteString("\n</details>\n")
}

// cell, escape and fence keep what others wrote from becoming markup.
func cell(s string) string {
	return strings.NewReplacer("|", "\\|", "\n", " ", "`", "'", "<", "&lt;", "@", "@\u200b").Replace(s)
}

func escape(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(s)
}

func fence(s string) string { return strings.ReplaceAll(s, "```", "'''") }
