package apiserver

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/writ-os/writ/controlplane/auth/impersonation"
)

// attributes are the route in the words of authorizers.
func (x *exchange) attributes() *authorizer.AttributesRecord {
	rt := &x.route
	a := &authorizer.AttributesRecord{
		User: x.user, Verb: rt.Verb, Path: rt.Path, ResourceRequest: rt.IsResource,
		APIGroup: rt.Group, APIVersion: rt.Version, Namespace: rt.Namespace,
		Resource: rt.Plural, Subresource: rt.Subresource, Name: rt.Name,
	}
	x.addSelectors(a)
	return a
}

// addSelectors tells the authorizer how a collection is narrowed: a node may
// list the pods that are bound to it, and no others.
func (x *exchange) addSelectors(a *authorizer.AttributesRecord) {
	switch x.route.Verb {
	case "list", "watch", "deletecollection":
	default:
		return
	}
	if x.route.PathVerb || !strings.Contains(x.r.URL.RawQuery, "Selector") {
		return
	}
	q := x.r.URL.Query()
	if v := q.Get("fieldSelector"); v != "" {
		sel, err := fields.ParseSelector(v)
		if err != nil {
			a.FieldSelectorParsingErr = err
		} else {
			a.FieldSelectorRequirements = sel.Requirements()
		}
	}
	if v := q.Get("labelSelector"); v != "" {
		sel, err := labels.Parse(v)
		if err != nil {
			a.LabelSelectorParsingErr = err
		} else {
			a.LabelSelectorRequirements, _ = sel.Requirements()
		}
	}
}

// allowed turns the decision of the authorizer into an error.
func (s *Server) allowed(x *exchange, a *authorizer.AttributesRecord) error {
	decision, reason, err := s.cfg.Authorizer.Authorize(x.r.Context(), a)
	switch {
	case decision == authorizer.DecisionAllow:
		return nil
	case err != nil: // nobody knows; the client may ask again
		return statusError(http.StatusInternalServerError, "", html.Replace(fmt.Sprintf("Internal Server Error: %q: %v", x.r.RequestURI, err)))
	}
	return errForbidden(a, reason)
}

// impersonate replaces the user by the one that the Impersonate-* headers name,
// if the user may do that.
func (s *Server) impersonate(x *exchange) error {
	wanted, err := impersonation.Wanted(x.r.Header)
	if wanted == nil || err != nil {
		return err
	}
	u, constraint, err := s.impersonation.User(x.r.Context(), wanted, *x.attributes())
	if err != nil {
		if r := (*impersonation.Refusal)(nil); errors.As(err, &r) {
			return errForbidden(r.Attributes, r.Reason)
		}
		return err
	}
	s.cfg.Log.Debug("impersonation", "user", x.user.GetName(), "as", u.GetName(), "path", x.route.Path)
	x.event.Impersonated(u, constraint)
	x.user = u
	x.r = x.r.WithContext(request.WithUser(x.r.Context(), x.user))
	return nil
}
