package crd

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/writ-os/writ/controlplane/registry"
	"github.com/writ-os/writ/schema"
)

// Admission refuses new objects of a definition that is being deleted, so that
// its deletion comes to an end.
type Admission struct{}

var (
	_ registry.Admission = Admission{}
	_ registry.Handler   = Admission{}
)

// Handles implements registry.Handler.
func (Admission) Handles(verb string, r *schema.Resource, sub string) bool {
	return verb == "create" && sub == "" && !isBuiltin(r)
}

func isBuiltin(r *schema.Resource) bool { return schema.ByGVR(r.GVR()) == r }

// Mutate implements registry.Admission.
func (Admission) Mutate(_ context.Context, a *registry.Attributes) error {
	if a.Verb != "create" || a.Request == nil {
		return nil
	}
	if t, ok := a.Request.Custom.(interface{ Terminating() bool }); ok && t.Terminating() {
		return apierrors.NewForbidden(a.Request.GroupResource(), a.Key.Name,
			errors.New("create not allowed while custom resource definition is terminating"))
	}
	return nil
}

// Validate implements registry.Admission.
func (Admission) Validate(context.Context, *registry.Attributes) error { return nil }
