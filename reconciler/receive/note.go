package receive

import (
	"context"
	"fmt"

	"github.com/go-git/go-git/v5/plumbing"
	"k8s.io/apiserver/pkg/audit"
)

// notes bounds what one exchange adds to the audit log.
const notes = 50

// noteVerdicts writes into the audit event of a push what became of each ref.
func noteVerdicts(ctx context.Context, verdicts []verdict) {
	for i, v := range verdicts {
		if i == notes {
			audit.AddAuditAnnotation(ctx, "git.writ.dev/more", fmt.Sprintf("%d more refs", len(verdicts)-i))
			return
		}
		result := "accepted"
		if v.reason != "" {
			result = "refused: " + oneLine(v.reason)
		}
		audit.AddAuditAnnotation(ctx, "git.writ.dev/"+v.name, fmt.Sprintf("%s..%s %s", v.old, v.sha, result))
	}
}

// noteWants writes into the audit event of a fetch which commits were sent.
func noteWants(ctx context.Context, wants []plumbing.Hash) {
	for i, h := range wants {
		if i == notes {
			audit.AddAuditAnnotation(ctx, "git.writ.dev/more", fmt.Sprintf("%d more objects", len(wants)-i))
			return
		}
		audit.AddAuditAnnotation(ctx, fmt.Sprintf("git.writ.dev/want-%d", i), h.String())
	}
}
