package registry

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/writ-os/writ/controlplane/store"
	"github.com/writ-os/writ/schema"
)

// Texts that clients know.
const (
	optimisticLock   = "the object has been modified; please apply your changes to the latest version and try again"
	namespaceDiffers = "the namespace of the provided object does not match the namespace sent on the request"
)

// errVersionOnCreate is none of the API's errors, as upstream: an internal one.
var errVersionOnCreate = errors.New("resourceVersion should not be set on objects to be created")

func notFound(r *schema.Resource, name string) error {
	return apierrors.NewNotFound(r.GroupResource(), name)
}

func alreadyExists(r *schema.Resource, name string) error {
	return apierrors.NewAlreadyExists(r.GroupResource(), name)
}

func conflictError(r *schema.Resource, name string) error {
	return apierrors.NewConflict(r.GroupResource(), name, errors.New(optimisticLock))
}

func invalid(r *schema.Resource, name string, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(r.GVK().GroupKind(), name, errs)
}

func subresourceNotFound(r *schema.Resource, sub, name string) error {
	gr := r.GroupResource()
	gr.Resource += "/" + sub
	return apierrors.NewNotFound(gr, name)
}

// Unavailable says that most of the servers cannot be reached from this one:
// nothing was stored, and another server may answer.
func Unavailable(err error) *apierrors.StatusError {
	out := apierrors.NewServiceUnavailable(err.Error())
	out.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: 1}
	return out
}

// current waits until this server's copy holds what every server has stored.
// Alone it costs nothing.
func (g *Registry) current(ctx context.Context) error {
	err := g.store.Current(ctx)
	if errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrClosed) {
		return storeError(nil, err)
	}
	return err
}

// unreadable is what everybody is told who asks for a resource of which this
// server cannot read all values: an internal error, as upstream.
func unreadable(err error) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError,
		Message: fmt.Sprintf("Internal error occurred: %v", err),
	}}
}

// Readable is an internal error for a resource of which this server cannot read
// all values: nothing that exists may look deleted.
func (g *Registry) Readable(r *schema.Resource) error {
	if err := g.store.View().Unreadable(r); err != nil {
		return unreadable(err)
	}
	return nil
}

// writable is Readable for writes: they are refused besides while what admission
// goes by cannot be read, since a policy that is not seen would not be kept.
func (g *Registry) writable(r *schema.Resource) error {
	v := g.store.View()
	if err := v.Unreadable(r); err != nil {
		return unreadable(err)
	}
	var all *store.UnreadableError
	for _, err := range g.store.UnreadableKinds() {
		if errors.As(err, &all) && rules(all.Resource) {
			return unreadable(err)
		}
	}
	return nil
}

// rules says whether admission goes by the objects of a resource.
func rules(r *schema.Resource) bool {
	switch r.Group {
	case "admissionregistration.k8s.io", "apiextensions.k8s.io", "rbac.authorization.k8s.io", "writ.dev":
		return true
	case "":
		return r.Plural == "namespaces" || r.Plural == "resourcequotas" || r.Plural == "limitranges"
	}
	return false
}

// storeError says in the words of the API what the store refused. A conflict
// stays as it is: the caller tries again.
func storeError(writes []store.Write, err error) error {
	var large *store.TooLargeError
	var conflict *store.ConflictError
	var lost *store.UnreadableError
	switch {
	case errors.As(err, &conflict):
		return err
	case errors.As(err, &lost):
		return unreadable(lost)
	case errors.As(err, &large):
		return apierrors.NewRequestEntityTooLargeError(err.Error())
	case errors.Is(err, store.ErrNoSpace):
		return &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusInsufficientStorage, Reason: metav1.StatusReasonInternalError,
			Message: fmt.Sprintf("the cluster cannot store changes now: %v", err),
		}}
	case errors.Is(err, store.ErrNotKept): // its definition has gone meanwhile
		return apierrors.NewGenericServerResponse(http.StatusNotFound, "", kschema.GroupResource{}, "", "", 0, true)
	case errors.Is(err, store.ErrUnavailable):
		return Unavailable(err)
	case errors.Is(err, store.ErrClosed):
		return apierrors.NewServiceUnavailable("the server is shutting down")
	case errors.Is(err, store.ErrUnknownOutcome), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return apierrors.NewTimeoutError(fmt.Sprintf("storing %d objects: %v", len(writes), err), 1)
	}
	return apierrors.NewInternalError(err)
}
