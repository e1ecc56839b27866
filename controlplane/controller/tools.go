package controller

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

// Tools are what reconcilers work with. Those that need more have them in their
// Config.
type Tools struct {
	Client client.Interface
	// Cache holds every resource that the reconciler reads.
	Cache client.Cache
	// Recorder tells of what happens. nil tells nobody.
	Recorder *client.Recorder
	// Clock is the time. Default time.Now.
	Clock func() time.Time
}

// Now is the time by the clock.
func (t Tools) Now() time.Time {
	if t.Clock == nil {
		return time.Now()
	}
	return t.Clock()
}

// DeleteSeen deletes the object that was seen, and no newer one of its name. One
// that is gone is no error.
func DeleteSeen[T schema.Object](ctx context.Context, c client.Writer, o T) error {
	uid := o.GetUID()
	err := client.Delete[T](ctx, c, schema.KeyOf(o), client.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}
