package reconciler

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/reconciler/plan"
	"github.com/writ-os/writ/reconciler/report"
)

// maxPushLines is how many objects a pusher is shown; `writ plan` shows all.
const maxPushLines = 25

// Receive decides on a commit that somebody pushes, before the branch moves. It
// returns what the pusher should read: the plan, or the findings with an error.
// A refused commit is remembered as a Commit object, so that status tells of
// it although it never came to the branch.
func (r *Reconciler) Receive(ctx context.Context, src Source, c Commit) ([]string, error) {
	p, err := r.Preview(ctx, src, c)
	if err != nil {
		return nil, wrap("plan the push", err)
	}
	if len(p.Findings) == 0 {
		return pushLines(p), nil
	}
	obj, err := r.pending(ctx, c, time.Now())
	if err != nil {
		return nil, err
	}
	report.Refused(obj, p.Findings, time.Now())
	if _, err := r.cfg.Client.Transact(ctx, []client.Op{report.Status(obj)}, false); err != nil {
		return nil, wrap("report refused push", err)
	}
	r.metrics.refused(p.Findings)
	r.log.Warn("push refused", "commit", c.SHA, "findings", len(p.Findings), "first", Text(p.Findings[0]))
	lines := make([]string, 0, len(p.Findings))
	for _, f := range p.Findings {
		lines = append(lines, Text(f))
	}
	return lines, fmt.Errorf("%s; the cluster is unchanged", count(len(p.Findings), "finding"))
}

// pushLines is a plan as `remote:` lines.
func pushLines(p *plan.Plan) []string {
	var b strings.Builder
	if err := p.Write(&b, plan.Style{MaxObjects: maxPushLines}); err != nil {
		return []string{p.Summary()}
	}
	return strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
