package apiserver

import (
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// authorize asks whether the user may do what the route says.
func (s *Server) authorize(x *exchange) error {
	return s.allowed(x, x.attributes())
}

// attributes are the route in the words of authorizers.
func (x *exchange) attributes() *authorizer.AttributesRecord {
	rt := &x.route
	a := &authorizer.AttributesRecord{
		User: x.user, Verb: rt.Verb, Path: rt.Path, ResourceRequest: rt.IsResource,
		APIGroup: rt.Group, APIVersion: rt.Version, Namespace: rt.Namespace,
		Resource: rt.Plural, Subresource: rt.Subresource, Name: rt.Name,
	}
	// POST to namespaces/<ns>/bindings is the old way to post to pods/binding.
	if rt.Verb == "proxy" {
		a.Subresource = "proxy"
		a.Verb = methodVerb(x.r.Method)
	}
	if v := x.r.URL.Query().Get("fieldSelector"); v != "" && rt.IsResource {
		// The Node authorizer lets a node list its own pods only.
		sel, err := fields.ParseSelector(v)
		if err != nil {
			a.FieldSelectorParsingErr = err
		} else {
			a.FieldSelectorRequirements = sel.Requirements()
		}
	}
	return a
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
	if wanted.Name != user.Anonymous && !slices.Contains(wanted.Groups, user.AllAuthenticated) {
		wanted.Groups = append(wanted.Groups, user.AllAuthenticated)
	}
	s.cfg.Log.Debug("impersonation", "user", x.user.GetName(), "as", wanted.Name, "path", x.route.Path)
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
	if sa := strings.HasPrefix(u.Name, serviceaccount.ServiceAccountUsernamePrefix); !sa || len(u.Groups) > 0 {
		implied := map[string]bool{}
		if ns, _, err := serviceaccount.SplitUsername(u.Name); err == nil {
			for _, g := range serviceaccount.MakeGroupNames(ns) {
				implied[g] = true
			}
		}
		for _, g := range u.Groups {
			if !implied[g] {
				all = append(all, authorizer.AttributesRecord{APIVersion: "v1", Resource: "groups", Name: g})
			}
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
