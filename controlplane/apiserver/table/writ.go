package table

import (
	"fmt"
	"strings"

	"github.com/writ-os/writ/schema/v1alpha1"
)

// Columns of our own group.
var _ = register(map[string]func(*Row) any{
	"repositoryApplied": func(r *Row) any {
		applied := r.Object.(*v1alpha1.Repository).Status.Applied
		return applied[:min(12, len(applied))]
	},
	"nodeImageDigest": func(r *Row) any {
		digest := strings.TrimPrefix(r.Object.(*v1alpha1.NodeImage).Spec.Digest, "sha256:")
		return digest[:min(12, len(digest))]
	},
	"nodeImageFailed": func(r *Row) any { return len(r.Object.(*v1alpha1.NodeImage).Status.Failed) },
	"commitReady": func(r *Row) any {
		s := r.Object.(*v1alpha1.Commit).Status
		return fmt.Sprintf("%d/%d", s.Ready, s.Objects)
	},
	"commitSubject": func(r *Row) any {
		subject, _, _ := strings.Cut(strings.TrimSpace(r.Object.(*v1alpha1.Commit).Spec.Message), "\n")
		return subject
	},
})
