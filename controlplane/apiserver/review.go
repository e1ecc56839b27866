package apiserver

import (
	"fmt"
	"net/http"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/writ-os/writ/schema"
)

// reviewSelf says who the server takes the client for.
func (s *Server) reviewSelf(x *exchange, o schema.Object) error {
	r := o.(*authenticationv1.SelfSubjectReview)
	r.Status.UserInfo = userInfo(x.user)
	return s.reply(x, r)
}

func userInfo(u user.Info) authenticationv1.UserInfo {
	info := authenticationv1.UserInfo{Username: u.GetName(), UID: u.GetUID(), Groups: u.GetGroups()}
	for k, v := range u.GetExtra() {
		if info.Extra == nil {
			info.Extra = map[string]authenticationv1.ExtraValue{}
		}
		info.Extra[k] = v
	}
	return info
}

// reviewToken says whose a token is.
func (s *Server) reviewToken(x *exchange, o schema.Object) error {
	r := o.(*authenticationv1.TokenReview)
	if s.cfg.TokenReader == nil {
		return apierrors.NewBadRequest("Token review is not supported")
	}
	if r.Spec.Token == "" {
		return apierrors.NewBadRequest("token is required for TokenReview in authentication")
	}
	u, audiences, err := s.cfg.TokenReader.Authenticate(r.Spec.Token, r.Spec.Audiences)
	switch {
	case err != nil:
		r.Status = authenticationv1.TokenReviewStatus{Error: err.Error()}
	case u != nil:
		r.Status = authenticationv1.TokenReviewStatus{Authenticated: true, User: userInfo(u), Audiences: audiences}
	}
	return s.reply(x, r)
}

// reviewSelfAccess says whether the client may do something.
func (s *Server) reviewSelfAccess(x *exchange, o schema.Object) error {
	r := o.(*authorizationv1.SelfSubjectAccessReview)
	a, err := reviewAttributes(r.Kind, x.user, r.Spec.ResourceAttributes, r.Spec.NonResourceAttributes)
	if err != nil {
		return err
	}
	r.Status = s.decide(x, a)
	return s.reply(x, r)
}

// reviewAccess says whether anybody may do something.
func (s *Server) reviewAccess(x *exchange, o schema.Object) error {
	r := o.(*authorizationv1.SubjectAccessReview)
	a, err := subjectAttributes(r.Kind, &r.Spec)
	if err != nil {
		return err
	}
	r.Status = s.decide(x, a)
	return s.reply(x, r)
}

// reviewLocalAccess is the same within one namespace.
func (s *Server) reviewLocalAccess(x *exchange, o schema.Object) error {
	r := o.(*authorizationv1.LocalSubjectAccessReview)
	if err := setNamespace(&schema.Resource{Namespaced: true}, &x.route, r); err != nil {
		return err
	}
	if r.Spec.ResourceAttributes == nil {
		return apierrors.NewInvalid(reviewKind(r.Kind), "", field.ErrorList{field.Invalid(
			field.NewPath("spec.resourceAttributes"), nil, "must specify resourceAttributes")})
	}
	if ns := r.Spec.ResourceAttributes.Namespace; ns != x.route.Namespace {
		return apierrors.NewBadRequest(fmt.Sprintf("spec.resourceAttributes.namespace must match namespace: %v", x.route.Namespace))
	}
	a, err := subjectAttributes(r.Kind, &r.Spec)
	if err != nil {
		return err
	}
	r.Status = s.decide(x, a)
	return s.reply(x, r)
}

func subjectAttributes(kind string, spec *authorizationv1.SubjectAccessReviewSpec) (*authorizer.AttributesRecord, error) {
	if spec.User == "" && len(spec.Groups) == 0 {
		return nil, apierrors.NewInvalid(reviewKind(kind), "", field.ErrorList{field.Invalid(
			field.NewPath("spec.user"), spec.User, "at least one of user or group must be specified")})
	}
	u := &user.DefaultInfo{Name: spec.User, UID: spec.UID, Groups: spec.Groups}
	for k, v := range spec.Extra {
		if u.Extra == nil {
			u.Extra = map[string][]string{}
		}
		u.Extra[k] = v
	}
	return reviewAttributes(kind, u, spec.ResourceAttributes, spec.NonResourceAttributes)
}

// reviewAttributes turns what a review asks for into what authorizers decide.
func reviewAttributes(kind string, u user.Info, res *authorizationv1.ResourceAttributes, path *authorizationv1.NonResourceAttributes) (*authorizer.AttributesRecord, error) {
	if (res == nil) == (path == nil) {
		text := "exactly one of nonResourceAttributes or resourceAttributes must be specified"
		return nil, apierrors.NewInvalid(reviewKind(kind), "", field.ErrorList{field.Invalid(field.NewPath("spec.resourceAttributes"), nil, text)})
	}
	if path != nil {
		return &authorizer.AttributesRecord{User: u, Verb: path.Verb, Path: path.Path}, nil
	}
	return &authorizer.AttributesRecord{
		User: u, ResourceRequest: true, Verb: res.Verb, Namespace: res.Namespace,
		APIGroup: res.Group, APIVersion: matchAll(res.Version), Resource: res.Resource, Subresource: res.Subresource, Name: res.Name,
	}, nil
}

func matchAll(version string) string {
	if version == "" {
		return "*"
	}
	return version
}

func reviewKind(kind string) kschema.GroupKind { return kschema.GroupKind{Group: authz, Kind: kind} }

func (s *Server) decide(x *exchange, a *authorizer.AttributesRecord) authorizationv1.SubjectAccessReviewStatus {
	decision, reason, err := s.cfg.Authorizer.Authorize(x.r.Context(), a)
	st := authorizationv1.SubjectAccessReviewStatus{
		Allowed: decision == authorizer.DecisionAllow, Denied: decision == authorizer.DecisionDeny, Reason: reason,
	}
	if err != nil {
		st.EvaluationError = err.Error()
	}
	return st
}

// reviewSelfRules lists what the client may do in a namespace.
func (s *Server) reviewSelfRules(x *exchange, o schema.Object) error {
	r := o.(*authorizationv1.SelfSubjectRulesReview)
	if s.cfg.Rules == nil {
		return statusError(http.StatusNotFound, "NotFound", "the authorizer cannot list rules")
	}
	if r.Spec.Namespace == "" {
		return apierrors.NewBadRequest("no namespace on request")
	}
	resources, paths, incomplete, err := s.cfg.Rules.RulesFor(x.r.Context(), x.user, r.Spec.Namespace)
	r.Status = authorizationv1.SubjectRulesReviewStatus{
		Incomplete:       incomplete,
		ResourceRules:    []authorizationv1.ResourceRule{},
		NonResourceRules: []authorizationv1.NonResourceRule{},
	}
	if err != nil {
		r.Status.EvaluationError = err.Error()
	}
	for _, rule := range resources {
		r.Status.ResourceRules = append(r.Status.ResourceRules, authorizationv1.ResourceRule{
			Verbs: rule.GetVerbs(), APIGroups: rule.GetAPIGroups(), Resources: rule.GetResources(), ResourceNames: rule.GetResourceNames(),
		})
	}
	for _, rule := range paths {
		r.Status.NonResourceRules = append(r.Status.NonResourceRules, authorizationv1.NonResourceRule{
			Verbs: rule.GetVerbs(), NonResourceURLs: rule.GetNonResourceURLs(),
		})
	}
	return s.reply(x, r)
}
