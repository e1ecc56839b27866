package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	kjson "k8s.io/apimachinery/pkg/util/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/store"
	"github.com/writ-os/writ/schema"
)

// Transact implements client.Transactor. The ops are admitted in order, each
// over the effects of those before it, and stored in one transaction of the
// store. When other writers were faster all of it is done again, unless an op
// demanded a resourceVersion that is no longer the stored one.
func (g *Registry) Transact(ctx context.Context, ops []client.Op, dryRun bool) ([]schema.Object, error) {
	var last *schema.Resource
	for _, op := range ops {
		if op.Resource == last {
			continue
		}
		if err := g.writable(op.Resource); err != nil {
			return nil, err
		}
		last = op.Resource
	}
	entries := make([]*entry, len(ops))
	err := g.transaction(ctx, dryRun, func(ov *overlay) error {
		ov.leaving = g.leaving(ov, ops)
		errs := map[int]error{}
		var ahead []declaration
		for i, op := range ops {
			if i%aheadMost == 0 {
				ahead = g.readAhead(ov, ops[i:min(i+aheadMost, len(ops))])
			}
			e, err := g.op(ctx, ov, op, ahead[i%aheadMost], dryRun)
			var stale *store.ConflictError
			if errors.As(err, &stale) {
				return err // what the overlay stands on is too old: again
			}
			if err != nil {
				errs[i] = err
				continue
			}
			entries[i] = e
		}
		if len(errs) > 0 {
			return &client.TransactionError{Errs: errs}
		}
		return ctx.Err()
	})
	if err != nil {
		return nil, err
	}
	out := make([]schema.Object, len(ops))
	for i, e := range entries {
		if out[i], err = asked(ctx, ops[i].Resource, e.result()); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// op admits one op over an overlay. d is its declaration, if it was read ahead.
func (g *Registry) op(ctx context.Context, ov *overlay, op client.Op, d declaration, dryRun bool) (*entry, error) {
	if err := checkVersion(ov, op); err != nil {
		return nil, err
	}
	w := client.WriteOptions{
		Subresource: op.Subresource, Key: op.Key, FieldManager: op.FieldManager, Force: op.Force, DryRun: dryRun,
	}
	switch op.Verb {
	case client.VerbApply:
		return g.applyOp(ctx, ov, op, d, w)
	case client.VerbCreate:
		if op.Subresource == "binding" {
			return g.bindOver(ctx, ov, op.Resource, op.Key, op.Object, w)
		}
		return g.create(ctx, ov, op.Resource, op.Object.DeepCopyObject().(schema.Object), w)
	case client.VerbUpdate:
		if err := checkDoor(op.Resource, op.Subresource, op.Key.Name); err != nil {
			return nil, err
		}
		e, _, err := g.update(ctx, ov, op.Resource, op.Object.DeepCopyObject().(schema.Object), w)
		return e, err
	case client.VerbDelete:
		return g.delete(ctx, ov, op.Resource, op.Key, client.DeleteOptions{DryRun: dryRun, Propagation: metav1.DeletePropagationBackground})
	}
	return nil, apierrors.NewBadRequest(fmt.Sprintf("verb %q is not one of a transaction", op.Verb))
}

// checkVersion holds the resourceVersion that an op demands against the stored
// one. Effects of earlier ops do not count: they have none yet.
func checkVersion(ov *overlay, op client.Op) error {
	if op.ResourceVersion == "" {
		return nil
	}
	have := ""
	if it := ov.base.Get(op.Resource, op.Key); it != nil {
		have = it.Version.String()
	}
	switch {
	case op.ResourceVersion == "0" && have != "":
		return alreadyExists(op.Resource, op.Key.Name)
	case op.ResourceVersion != "0" && have == "":
		return notFound(op.Resource, op.Key.Name)
	case op.ResourceVersion != "0" && have != op.ResourceVersion:
		return conflictError(op.Resource, op.Key.Name)
	}
	return nil
}

// applyOp is server-side apply of the fields that an op declares.
func (g *Registry) applyOp(ctx context.Context, ov *overlay, op client.Op, d declaration, w client.WriteOptions) (*entry, error) {
	if d.patch == nil {
		var err error
		if d.patch, err = readOp(op); err != nil {
			return nil, err
		}
	}
	e, _, err := g.apply(ctx, ov, op.Resource, op.Key, d, w)
	return e, err
}

// readOp reads the fields that an op declares, or else those that its object
// sets.
func readOp(op client.Op) (*unstructured.Unstructured, error) {
	declared := op.Fields
	if declared == nil {
		var err error
		if declared, err = json.Marshal(op.Object); err != nil {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("encode %s: %v", op.Resource.Kind, err))
		}
	}
	patch := &unstructured.Unstructured{}
	if err := kjson.Unmarshal(declared, &patch.Object); err != nil { // whole numbers stay whole
		return nil, apierrors.NewBadRequest(fmt.Sprintf("error decoding %s: %v", types.ApplyPatchType, err))
	}
	return patch, nil
}
