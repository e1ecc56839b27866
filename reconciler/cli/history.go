package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/reconciler/report"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// History writes the commits of a repository, the newest first: when each was
// seen, how long its phases took, and what it did.
func History(ctx context.Context, c client.Reader, o Options, w io.Writer) error {
	all, err := commits(ctx, c, o.repository())
	if err != nil {
		return err
	}
	if o.JSON {
		return writeJSON(w, append([]*v1alpha1.Commit{}, all...))
	}
	if len(all) == 0 {
		_, err := fmt.Fprintln(w, "no commit has been seen yet")
		return err
	}
	var rows [][]string
	rows = append(rows, []string{"COMMIT", "AGE", "PHASE", "RENDERED", "PLANNED", "APPLIED", "HEALTHY", "OBJECTS", "CHANGES", "AUTHOR", "MESSAGE"})
	now := time.Now()
	for _, c := range all {
		s := c.Status
		rows = append(rows, []string{short(c.Spec.SHA), age(now.Sub(seen(c))), phase(s), took(s.SeenTime, s.RenderedTime), took(s.RenderedTime, s.PlannedTime),
			took(latest(s.PlannedTime, s.SeenTime), s.AppliedTime), took(s.AppliedTime, s.HealthyTime), objects(s), changes(s), author(c.Spec.Author), report.Title(c.Spec.Message)})
	}
	colors := func(row int) string {
		if row == 0 {
			return ""
		}
		return phaseColor(all[row-1].Status.Phase)
	}
	return writeTable(w, rows, 2, colors, o)
}

// latest is the first time that is known.
func latest(times ...*metav1.MicroTime) *metav1.MicroTime {
	for _, t := range times {
		if t != nil {
			return t
		}
	}
	return nil
}

// writeTable writes aligned rows; one column is coloured. Colours take no part
// in the widths, which text/tabwriter would have them do.
func writeTable(w io.Writer, rows [][]string, colored int, color func(row int) string, o Options) error {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for n, row := range rows {
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+2)
			if i == len(row)-1 {
				pad = ""
			}
			if i == colored {
				cell = paint(o, color(n), cell)
			}
			b.WriteString(cell + pad)
		}
		b.WriteString("\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func objects(s v1alpha1.CommitStatus) string {
	if s.AppliedTime == nil {
		return "-"
	}
	return fmt.Sprintf("%d/%d", s.Ready, s.Objects)
}

func seen(c *v1alpha1.Commit) time.Time {
	if c.Status.SeenTime != nil {
		return c.Status.SeenTime.Time
	}
	return c.CreationTimestamp.Time
}

func phase(s v1alpha1.CommitStatus) string {
	if s.RolledBackTo != "" {
		return fmt.Sprintf("%s (back to %s)", s.Phase, short(s.RolledBackTo))
	}
	if s.Phase == v1alpha1.CommitFailed {
		return fmt.Sprintf("%s (%s)", s.Phase, s.Reason)
	}
	return string(s.Phase)
}

func took(from, to *metav1.MicroTime) string {
	if from == nil || to == nil {
		return "-"
	}
	return span(to.Sub(from.Time))
}

func changes(s v1alpha1.CommitStatus) string {
	if s.AppliedTime == nil {
		return "-"
	}
	return fmt.Sprintf("+%d ~%d -%d", s.Created, s.Updated, s.Deleted)
}
