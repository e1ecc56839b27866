package admission

import (
	"context"
	"fmt"

	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/warning"

	"github.com/writ-os/writ/controlplane/auth/identity"
	"github.com/writ-os/writ/controlplane/registry"
)

// breakGlassAnnotation is in the audit events of what break-glass changed
// although Git declares it.
const breakGlassAnnotation = "guard.writ.dev/break-glass"

// breakGlass says whether a user holds the break-glass credential: its name
// alone is not enough, because others sign client certificates too, but never
// for system:masters.
func breakGlass(u user.Info) bool {
	return u != nil && !identity.InProcess(u) && u.GetName() == identity.Admin && identity.InGroup(u, user.SystemPrivilegedGroup)
}

// refuse is the answer to a write of what Git declares: no, or, to break-glass,
// that it will not last.
func refuse(ctx context.Context, a *registry.Attributes, p place, fields []string) error {
	if !breakGlass(a.User) {
		return declaredStatus(a, declaredError(p, fields))
	}
	warnBreakGlass(ctx, a, fmt.Sprintf("%sdeclared in Git: the reconciler puts it back to what %s says; edit it there", shorten(fields), p))
	return nil
}

// refuseForeign is the answer to a write of what Git leaves out of its own: no,
// or, to break-glass, that it lasts until somebody takes it back.
func refuseForeign(ctx context.Context, a *registry.Attributes, p place, fields []string) error {
	if !breakGlass(a.User) {
		return declaredStatus(a, foreignError(p, fields))
	}
	warnBreakGlass(ctx, a, fmt.Sprintf("%snot declared in Git: it stays, and is shown as drift, until it is declared in %s or taken back, by hand or by spec.undeclared of the Repository", shorten(fields), p))
	return nil
}

func warnBreakGlass(ctx context.Context, a *registry.Attributes, text string) {
	text = fmt.Sprintf("%s %s: %s", a.Resource, a.Key, text)
	warning.AddWarning(ctx, "", text)
	audit.AddAuditAnnotation(ctx, breakGlassAnnotation, text)
}
