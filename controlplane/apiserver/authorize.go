package apiserver

import (
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
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
	if decision == authorizer.DecisionAllow {
		return nil
	}
	if err != nil {
		s.cfg.Log.Debug("authorization is incomplete", "user", a.User.GetName(), "path", a.Path, "err", err)
		if reason == "" {
			reason = err.Error()
		}
	}
	return errForbidden(a, reason)
}

// impersonate replaces the user by the one that the Impersonate-* headers name,
// if the user may do that. A header that was ignored would let a request run
// with more rights than the client meant to use.
func (s *Server) impersonate(x *exchange) error {
	wanted, err := impersonated(x.r.Header)
	if wanted == nil || err != nil {
		return err
	}
	for _, a := range impersonations(wanted) {
		a.User, a.Verb, a.ResourceRequest = x.user, "impersonate", true
		if err := s.allowed(x, &a); err != nil {
			return err
		}
	}
	everybody := user.AllAuthenticated
	if wanted.Name == user.Anonymous {
		everybody = user.AllUnauthenticated
	}
	if !slices.Contains(wanted.Groups, everybody) {
		wanted.Groups = append(wanted.Groups, everybody)
	}
	s.cfg.Log.Debug("impersonation", "user", x.user.GetName(), "as", wanted.Name, "path", x.route.Path)
	x.event.Impersonated(wanted, "")
	x.user = wanted
	x.r = x.r.WithContext(request.WithUser(x.r.Context(), x.user))
	for name := range x.r.Header {
		if strings.HasPrefix(name, "Impersonate-") {
			x.r.Header.Del(name)
		}
	}
	return nil
}

// impersonated reads the headers; nil without an error means there are none.
func impersonated(h http.Header) (*user.DefaultInfo, error) {
	u := &user.DefaultInfo{Name: h.Get("Impersonate-User"), UID: h.Get("Impersonate-Uid"), Groups: slices.Clone(h.Values("Impersonate-Group"))}
	for name, values := range h {
		if key, ok := strings.CutPrefix(name, "Impersonate-Extra-"); ok {
			if u.Extra == nil {
				u.Extra = map[string][]string{}
			}
			u.Extra[strings.ToLower(key)] = values
		}
	}
	if u.Name == "" {
		if u.UID != "" || len(u.Groups) > 0 || len(u.Extra) > 0 {
			return nil, apierrors.NewBadRequest("requested impersonation without impersonating a user")
		}
		return nil, nil
	}
	if ns, _, err := serviceaccount.SplitUsername(u.Name); err == nil && len(u.Groups) == 0 {
		u.Groups = serviceaccount.MakeGroupNames(ns)
	}
	return u, nil
}

// impersonations are the permissions that it takes to become u.
func impersonations(u *user.DefaultInfo) []authorizer.AttributesRecord {
	var all []authorizer.AttributesRecord
	if ns, name, err := serviceaccount.SplitUsername(u.Name); err == nil {
		all = append(all, authorizer.AttributesRecord{APIVersion: "v1", Resource: "serviceaccounts", Namespace: ns, Name: name})
	} else {
		all = append(all, authorizer.AttributesRecord{APIVersion: "v1", Resource: "users", Name: u.Name})
	}
	var implied []string // what a service account is a member of anyway
	if ns, _, err := serviceaccount.SplitUsername(u.Name); err == nil {
		implied = serviceaccount.MakeGroupNames(ns)
	}
	for _, g := range u.Groups {
		if !slices.Contains(implied, g) {
			all = append(all, authorizer.AttributesRecord{APIVersion: "v1", Resource: "groups", Name: g})
		}
	}
	if u.UID != "" {
		all = append(all, authorizer.AttributesRecord{APIGroup: "authentication.k8s.io", APIVersion: "v1", Resource: "uids", Name: u.UID})
	}
	for key, values := range u.Extra {
		for _, v := range values {
			all = append(all, authorizer.AttributesRecord{APIGroup: "authentication.k8s.io", APIVersion: "v1", Resource: "userextras", Subresource: key, Name: v})
		}
	}
	return all
}
