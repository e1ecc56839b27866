package crd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

// patience is after which time of waiting for instances the status says so.
const patience = time.Minute

// mustFinish says whether a definition waits for the deletion of its instances.
func mustFinish(def *apiextensionsv1.CustomResourceDefinition) bool {
	return def.DeletionTimestamp != nil && slices.Contains(def.Finalizers, apiextensionsv1.CustomResourceCleanupFinalizer)
}

// finish deletes the instances of a definition, waits until they are gone and
// lets the definition go. Its status says how far it has come.
func (p *Publisher) finish(ctx context.Context, def *apiextensionsv1.CustomResourceDefinition, s *served) error {
	defer func() {
		select {
		case p.finished <- def.UID:
		case <-ctx.Done():
		}
	}()
	if overlaps(def) {
		return p.letGo(ctx, def, "OverlappingBuiltInResource", "instances overlap with built-in resources in storage")
	}
	if s == nil {
		return p.letGo(ctx, def, "NeverEstablished", "resource was never established")
	}
	if err := p.terminating(ctx, def, true, "InstanceDeletionInProgress", "CustomResource deletion is in progress"); err != nil {
		return err
	}
	began := time.Now()
	said := ""
	for {
		left, err := p.deleteInstances(ctx, s)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			if said != err.Error() { // else it is in the status since
				said = err.Error()
				p.log.Warn("instances are not all deleted", "definition", def.Name, "err", err)
			}
			err = p.terminating(ctx, def, true, "InstanceDeletionFailed", fmt.Sprintf("could not issue all deletes: %v", err))
		case left == 0:
			return p.letGo(ctx, def, "InstanceDeletionCompleted", "removed all instances")
		case time.Since(began) > patience:
			err = p.terminating(ctx, def, true, "InstanceDeletionCheck",
				"could not confirm zero CustomResources remaining: context deadline exceeded")
		}
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(p.cfg.Retry):
		}
	}
}

// deleteInstances deletes what has not been deleted yet and returns how many
// there still are.
func (p *Publisher) deleteInstances(ctx context.Context, s *served) (left int, err error) {
	r := deletionRow(s)
	var errs []error
	for _, o := range p.cfg.Cache.List(s.rows.Stored, "") {
		if o.GetDeletionTimestamp() != nil {
			continue
		}
		if err := p.cfg.Client.Delete(ctx, r, schema.KeyOf(o), client.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return 0, err
	}
	return len(p.cfg.Cache.List(s.rows.Stored, "")), nil
}

// deletionRow is the row by which instances are deleted: that of the stored
// version, which needs no conversion, if it is served.
func deletionRow(s *served) *schema.Resource {
	for _, v := range s.def.Spec.Versions {
		for _, r := range s.rows.Served {
			if v.Storage && r.Version == v.Name {
				return r
			}
		}
	}
	if len(s.rows.Served) > 0 {
		return s.rows.Served[0]
	}
	return s.rows.Stored
}

// terminating sets the condition Terminating of the newest state.
func (p *Publisher) terminating(ctx context.Context, def *apiextensionsv1.CustomResourceDefinition, on bool, reason, message string) error {
	cond := apiextensionsv1.CustomResourceDefinitionCondition{
		Type: apiextensionsv1.Terminating, Status: apiextensionsv1.ConditionFalse, Reason: reason, Message: message,
	}
	if on {
		cond.Status = apiextensionsv1.ConditionTrue
	}
	return p.change(ctx, def, "status", func(o *apiextensionsv1.CustomResourceDefinition) { set(o, cond, time.Now()) })
}

// letGo drops the finalizer, with the last word in the status.
func (p *Publisher) letGo(ctx context.Context, def *apiextensionsv1.CustomResourceDefinition, reason, message string) error {
	if err := p.terminating(ctx, def, false, reason, message); err != nil {
		return err
	}
	return p.change(ctx, def, "", func(o *apiextensionsv1.CustomResourceDefinition) {
		o.Finalizers = slices.DeleteFunc(o.Finalizers, func(f string) bool { return f == apiextensionsv1.CustomResourceCleanupFinalizer })
	})
}

// change changes the newest state of a definition until nobody else has changed
// it at the same time. One that is gone, or another of the same name, is left
// alone. Failures are logged, each once, and tried again, as nobody else will.
func (p *Publisher) change(ctx context.Context, def *apiextensionsv1.CustomResourceDefinition, sub string, fn func(*apiextensionsv1.CustomResourceDefinition)) error {
	said := ""
	for {
		o, err := p.cfg.Client.Get(ctx, p.crds, schema.KeyOf(def))
		if err == nil {
			now, ok := o.(*apiextensionsv1.CustomResourceDefinition)
			if !ok || now.UID != def.UID {
				return nil
			}
			next := now.DeepCopy()
			if fn(next); equality.Semantic.DeepEqual(now, next) {
				return nil
			}
			_, err = p.cfg.Client.Update(ctx, p.crds, next, client.WriteOptions{Subresource: sub, FieldManager: manager})
		}
		switch {
		case err == nil, apierrors.IsNotFound(err), ctx.Err() != nil:
			return nil
		case !apierrors.IsConflict(err) && said != err.Error():
			said = err.Error()
			p.log.Warn("definition that is being deleted cannot be written", "definition", def.Name, "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(p.cfg.Retry / 10):
		}
	}
}
