package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// Suspension is the change to commit that has a repository followed no more,
// or again. Suspending is declared in Git like everything else.
type Suspension struct {
	Repository string `json:"repository"`
	Suspend    bool   `json:"suspend"`
	// Already says that there is nothing to do.
	Already bool   `json:"already,omitempty"`
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	// Diff is for git apply; "" where no clone has the file, or it is none that
	// can be edited by the line.
	Diff string `json:"diff,omitempty"`
	Note string `json:"note,omitempty"`
}

// PlanSuspension says what to commit.
func PlanSuspension(ctx context.Context, c client.Reader, o Options, name string, suspend bool) (*Suspension, error) {
	repo, err := readRepository(ctx, c, name)
	if err != nil {
		return nil, err
	}
	if repo == nil {
		return nil, fmt.Errorf("there is no Repository %s: kubectl get repositories lists them", name)
	}
	inventories, err := client.ListAll[*v1alpha1.Inventory](ctx, c, client.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list inventories: %w", err)
	}
	s := &Suspension{Repository: name, Suspend: suspend, Already: repo.Spec.Suspend == suspend}
	r := schema.ResourceFor[*v1alpha1.Repository]()
	_, _, found := origins(inventories, r, r.Kind, "", name)
	if len(found) == 0 {
		s.Note = "no commit declares the Repository " + name + ": it is the one that the server was started with. Declare it in a file of its own, with spec.suspend, and it takes the place of the flags"
		return s, nil
	}
	at := found[0]
	s.File, s.Line = at.File, at.Line
	clone, err := nearClone(o.Clone)
	if err != nil {
		return nil, err
	}
	defer clone.close()
	if clone == nil || s.Already {
		return s, nil
	}
	clone.box = o.Sandbox
	return s, s.edit(ctx, c, clone, &at)
}

// edit makes the diff against the head of the clone.
func (s *Suspension) edit(ctx context.Context, c client.Reader, at *clone, from *origin) error {
	by, err := readRepository(ctx, c, from.Repository)
	if err != nil {
		return err
	}
	head, err := at.resolve("HEAD")
	if err != nil {
		return err
	}
	t, err := at.tree(head.SHA, folderOf(by))
	if err != nil {
		return err
	}
	m, err := at.find(ctx, t, from.unit, from.ref)
	if err != nil || m == nil {
		return err // another clone, or another branch
	}
	var fields any
	if err := json.Unmarshal(m.JSON, &fields); err != nil {
		return fmt.Errorf("read manifest: %w", err)
	}
	field := "spec.suspend"
	_, there := valueAt(fields, field)
	if !there {
		field = "spec"
	}
	pos := render.Locate(m.Expr(), field)
	lines, err := at.file(head.SHA, pos.Filename)
	if err != nil || !pos.IsValid() || pos.Line > len(lines) {
		return err
	}
	s.File, s.Line = pos.Filename, pos.Line
	if edited, ok := setSuspend(lines[pos.Line-1], there, s.Suspend, next(lines, pos.Line)); ok {
		s.Diff = oneHunk(pos.Filename, lines, pos.Line, edited)
	}
	return nil
}

func next(lines []string, n int) string {
	if n < len(lines) {
		return lines[n]
	}
	return ""
}

// setSuspend edits one line of YAML: the one that has the field, or the one
// that has "spec:", whose next line has the indentation to keep. false: it is
// written in a way that a person should edit.
func setSuspend(line string, there, suspend bool, next string) ([]string, bool) {
	body := strings.TrimRight(line, "\r\n")
	value := fmt.Sprintf("suspend: %t\n", suspend)
	indent := func(s string) string { return s[:len(s)-len(strings.TrimLeft(s, " "))] }
	switch text := strings.TrimSpace(body); {
	case there && strings.HasPrefix(text, "suspend:"):
		if _, comment, ok := strings.Cut(body, " #"); ok {
			value = fmt.Sprintf("suspend: %t #%s\n", suspend, comment)
		}
		return []string{indent(body) + value}, true
	case !there && text == "spec:" && len(indent(next)) > len(indent(body)):
		return []string{line, indent(next) + value}, true
	}
	return nil, false
}

// oneHunk is a unified diff that puts new lines in the place of line n.
func oneHunk(file string, lines []string, n int, with []string) string {
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	const context = 3
	from, to := max(1, n-context), min(len(lines), n+context)
	var b strings.Builder
	fmt.Fprintf(&b, "--- a/%s\n+++ b/%s\n", file, file)
	fmt.Fprintf(&b, "@@ -%d,%d +%d,%d @@\n", from, to-from+1, from, to-from+len(with))
	put := func(sign, line string) {
		b.WriteString(sign + strings.TrimSuffix(line, "\n") + "\n")
		if !strings.HasSuffix(line, "\n") {
			b.WriteString("\\ No newline at end of file\n")
		}
	}
	for i := from; i < n; i++ {
		put(" ", lines[i-1])
	}
	if with[0] == lines[n-1] {
		put(" ", with[0])
		with = with[1:]
	} else {
		put("-", lines[n-1])
	}
	for _, line := range with {
		put("+", line)
	}
	for i := n + 1; i <= to; i++ {
		put(" ", lines[i-1])
	}
	return b.String()
}

// WriteSuspension writes what to commit.
func WriteSuspension(w io.Writer, s *Suspension, o Options) error {
	if o.JSON {
		return writeJSON(w, s)
	}
	verb, value := "resume", "false (or take the line out)"
	if s.Suspend {
		verb, value = "suspend", "true"
	}
	var b strings.Builder
	switch {
	case s.Already && s.Suspend:
		fmt.Fprintf(&b, "The repository %s is suspended already.\n", s.Repository)
	case s.Already:
		fmt.Fprintf(&b, "The repository %s is not suspended.\n", s.Repository)
	case s.Diff != "":
		fmt.Fprintf(&b, "# To %s the repository %s, commit this: writ %s %s | git apply\n%s", verb, s.Repository, verb, s.Repository, s.Diff)
	case s.File != "":
		fmt.Fprintf(&b, "To %s the repository %s, set spec.suspend to %s in %s:%d, and commit.\n", verb, s.Repository, value, s.File, s.Line)
	}
	if s.Note != "" {
		fmt.Fprintf(&b, "%s.\n", strings.ToUpper(s.Note[:1])+s.Note[1:])
	}
	_, err := io.WriteString(w, b.String())
	return err
}
