package apiserver

import (
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/store"
	"github.com/writ-os/writ/schema"
)

// unsafeDelete is the verb that a user needs besides, to delete what cannot be
// read: upstream's (KEP-3926).
const unsafeDelete = "unsafe-delete-ignore-read-errors"

// serveUnreadable answers for a resource of which this server cannot read all
// values: what exists must not look deleted. All it does is to delete one such
// value, without its finalizers and without regard to what depends on it, for
// somebody who says so by the option that upstream has for it.
func (s *Server) serveUnreadable(x *exchange, r *schema.Resource, lost error) error {
	refusal := statusError(http.StatusInternalServerError, metav1.StatusReasonInternalError, "Internal error occurred: "+lost.Error())
	if x.route.Verb != "delete" || x.route.Subresource != "" {
		return refusal
	}
	o, err := deleteOptions(x)
	if err != nil {
		return err
	}
	if force := o.IgnoreStoreReadErrorWithClusterBreakingPotential; force == nil || !*force {
		return refusal
	}
	a := x.attributes()
	a.Verb = unsafeDelete
	if err := s.allowed(x, a); err != nil {
		return err
	}
	switch err := s.cfg.Store.DeleteUnreadable(x.r.Context(), r, key(r, &x.route)); {
	case errors.Is(err, store.ErrReadable):
		return apierrors.NewConflict(r.GroupResource(), x.route.Name, err)
	case err != nil:
		return err
	}
	s.cfg.Log.Warn("a value that cannot be read was deleted", "resource", r.String(), "namespace", x.route.Namespace, "name", x.route.Name, "user", x.user.GetName())
	out, err := negotiate(x.r, allowPlain)
	if err != nil {
		return err
	}
	writeObject(x, x.r, http.StatusOK, out, &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess,
		Details: &metav1.StatusDetails{Name: x.route.Name, Group: r.Group, Kind: r.Plural},
	})
	return nil
}
