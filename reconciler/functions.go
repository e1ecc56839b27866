package reconciler

import (
	"slices"

	"github.com/writ-os/writ/reconciler/health"
	"github.com/writ-os/writ/reconciler/policy"
	"github.com/writ-os/writ/reconciler/receive"
	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/reconciler/sandbox"
	"github.com/writ-os/writ/reconciler/source"
)

// Functions are what a child must know that evaluates what a repository holds.
// A main hands them to sandbox.Serve.
func Functions() []sandbox.Function {
	return slices.Concat(render.Functions(), policy.Functions(), health.Functions(), receive.Functions(), source.Functions())
}
