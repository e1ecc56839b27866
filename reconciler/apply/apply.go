// Package apply brings a plan into the store: every object, deletion and
// inventory of it in one transaction, or nothing at all.
//
// It watches nothing. It writes the objects that Git declares, as field manager
// "writ", and the Inventory objects. It promises that whoever kills the process
// at any moment finds the cluster as before the plan or as after it.
package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/reconciler/plan"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// ErrConflict says that someone else wrote what the plan has read: read again,
// and make a new plan.
var ErrConflict = errors.New("the cluster has changed since the plan was made")

// Refused says why the server does not accept a plan.
type Refused struct{ Findings []v1alpha1.Finding }

// Error implements error.
func (r *Refused) Error() string {
	if len(r.Findings) == 0 {
		return "plan refused"
	}
	return fmt.Sprintf("plan refused: %s (%d findings)", r.Findings[0].Message, len(r.Findings))
}

// Do stores a plan together with other writes of the same moment, and returns
// the objects in the order of Ops(p), then those of the others.
func Do(ctx context.Context, t client.Transactor, p *plan.Plan, others ...client.Op) ([]schema.Object, error) {
	ops := append(Ops(p), others...)
	if len(ops) == 0 {
		return nil, nil
	}
	out, err := t.Transact(ctx, ops, false)
	if err != nil {
		return nil, explain(p, err)
	}
	return out, nil
}

// Try asks the server whether it would accept a plan, and stores nothing.
func Try(ctx context.Context, t client.Transactor, p *plan.Plan) error {
	if ops := Ops(p); len(ops) > 0 {
		if _, err := t.Transact(ctx, ops, true); err != nil {
			return explain(p, err)
		}
	}
	return nil
}

// Ops are the writes of a plan: first those of p.Ops, one each, then those of
// p.Inventories.
func Ops(p *plan.Plan) []client.Op {
	ops := make([]client.Op, 0, len(p.Ops)+len(p.Inventories))
	for i := range p.Ops {
		ops = append(ops, objectOp(&p.Ops[i]))
	}
	for i := range p.Inventories {
		ops = append(ops, inventoryOp(&p.Inventories[i]))
	}
	return ops
}

func objectOp(o *plan.Op) client.Op {
	if o.Action == plan.Delete || o.Action == plan.Replace {
		return client.Op{Verb: client.VerbDelete, Resource: o.Resource, Key: o.Key}
	}
	if o.Whole {
		return client.Op{Verb: client.VerbUpdate, Resource: o.Resource, Key: o.Key, Object: o.Object, ResourceVersion: o.Object.GetResourceVersion(),
			FieldManager: plan.Manager}
	}
	return client.Op{Verb: client.VerbApply, Resource: o.Resource, Key: o.Key, Object: o.Object, Fields: o.Fields,
		FieldManager: plan.Manager, Force: true}
}

func inventoryOp(o *plan.InventoryOp) client.Op {
	op := client.Op{Verb: client.VerbUpdate, Resource: schema.ResourceFor[*v1alpha1.Inventory](), Key: schema.Key{Name: o.Name},
		ResourceVersion: o.ResourceVersion, FieldManager: plan.Manager}
	switch {
	case o.Object == nil:
		op.Verb = client.VerbDelete
		return op
	case o.ResourceVersion == "0":
		op.Verb = client.VerbCreate
	}
	op.Object = o.Object
	return op
}

// explain turns an error of the server into ErrConflict, a *Refused, or an
// error that may go away by itself.
func explain(p *plan.Plan, err error) error {
	var tx *client.TransactionError
	switch {
	case errors.As(err, &tx):
		return explainOps(p, tx)
	case apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err):
		return ErrConflict
	case apierrors.IsRequestEntityTooLargeError(err):
		return &Refused{[]v1alpha1.Finding{tooLarge(p)}}
	}
	return fmt.Errorf("store commit: %w", err)
}

func explainOps(p *plan.Plan, tx *client.TransactionError) error {
	refused := &Refused{}
	var passing error
	for _, i := range keys(tx.Errs) {
		err := tx.Errs[i]
		switch {
		case i >= len(p.Ops):
			if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) {
				return ErrConflict
			}
			passing = fmt.Errorf("store commit: %w", err)
		case apierrors.IsConflict(err), apierrors.IsNotFound(err) && (p.Ops[i].Action == plan.Delete || p.Ops[i].Action == plan.Replace):
			return ErrConflict
		case temporary(err):
			passing = fmt.Errorf("apply %s: %w", p.Ops[i].Ref, err)
		default:
			refused.Findings = append(refused.Findings, findings(&p.Ops[i], err)...)
		}
	}
	if len(refused.Findings) == 0 && passing != nil {
		return passing
	}
	return refused
}

// temporary says whether the server may answer otherwise in a moment. It never
// does of fields that it cannot read, for which it has no code of its own: twice
// the same key in a list, or what a definition does not have.
func temporary(err error) bool {
	if strings.Contains(err.Error(), "failed to create typed patch object") {
		return false
	}
	return apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) || apierrors.IsTooManyRequests(err) ||
		apierrors.IsInternalError(err) || apierrors.IsServiceUnavailable(err) || apierrors.ReasonForError(err) == metav1.StatusReasonUnknown ||
		apierrors.HasStatusCause(err, "NamespaceTerminating")
}

// findings says what the server has against one object, one for each cause.
func findings(o *plan.Op, err error) []v1alpha1.Finding {
	base := v1alpha1.Finding{File: o.File, Line: o.Line, Column: o.Column, Object: o.Ref.String(), Rule: rule(err), Message: err.Error()}
	if o.Sealed {
		base.Message, base.Hint = "the server refuses the object ("+base.Rule+")", "its words are hidden, since the manifest is encrypted"
		return []v1alpha1.Finding{base}
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil || len(status.Status().Details.Causes) == 0 {
		return []v1alpha1.Finding{base}
	}
	var out []v1alpha1.Finding
	for _, cause := range status.Status().Details.Causes {
		f := base
		f.Field, f.Message = strings.Trim(cause.Field, "<>"), cause.Message
		if cause.Type != "" {
			f.Rule = strings.TrimPrefix(string(cause.Type), "FieldValue")
		}
		out = append(out, f)
	}
	return out
}

func rule(err error) string {
	if reason := apierrors.ReasonForError(err); reason != metav1.StatusReasonUnknown {
		return string(reason)
	}
	return "Refused"
}

func tooLarge(p *plan.Plan) v1alpha1.Finding {
	return v1alpha1.Finding{Rule: "TooLarge", Message: fmt.Sprintf("the commit writes %d objects, too much for one transaction", len(p.Ops)),
		Hint: "push the change as several commits"}
}

func keys[K cmp.Ordered, V any](m map[K]V) []K {
	out := make([]K, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
