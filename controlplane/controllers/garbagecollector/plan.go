package garbagecollector

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/schema"
)

// verb is what becomes of an object.
type verb int

const (
	keep verb = iota
	unlink
	discard
)

type decision struct {
	verb        verb
	propagation metav1.DeletionPropagation
}

// plan decides by the states of an object's owners: how many are alive, are
// going in the foreground (and so wait for this one), and are gone.
func plan(solid, waiting, dangling int, o schema.Object, hasDependents bool) decision {
	switch {
	case solid+waiting+dangling == 0:
		return decision{verb: keep}
	case solid > 0 && waiting+dangling > 0:
		return decision{verb: unlink}
	case solid > 0:
		return decision{verb: keep}
	case waiting > 0 && hasDependents:
		return decision{discard, metav1.DeletePropagationForeground}
	case slices.Contains(o.GetFinalizers(), metav1.FinalizerOrphanDependents):
		return decision{discard, metav1.DeletePropagationOrphan}
	case slices.Contains(o.GetFinalizers(), metav1.FinalizerDeleteDependents):
		return decision{discard, metav1.DeletePropagationForeground}
	}
	return decision{discard, metav1.DeletePropagationBackground}
}

// state is what an owner is.
type state int

const (
	alive state = iota
	goingForeground
	gone
)

// stateOf finds out about an owner: in the cache, and where it is not there,
// from the server. What cannot be known counts as alive: deleting is for sure.
func (c *Controller) stateOf(ctx context.Context, id identity, ref metav1.OwnerReference) (state, error) {
	owner, ok := c.ownerOf(id, ref)
	if !ok {
		return alive, nil
	}
	o, ok := c.cfg.Cache.Get(owner.resource, owner.key)
	if !ok || o.GetUID() != ref.UID {
		var err error
		o, err = c.cfg.Client.Get(ctx, c.served(owner), owner.key)
		if apierrors.IsNotFound(err) {
			return gone, nil
		}
		if err != nil {
			return alive, fmt.Errorf("read owner %s of %s: %w", owner, id, err)
		}
		if o.GetUID() != ref.UID {
			return gone, nil
		}
	}
	if o.GetDeletionTimestamp() != nil && slices.Contains(o.GetFinalizers(), metav1.FinalizerDeleteDependents) {
		return goingForeground, nil
	}
	return alive, nil
}
