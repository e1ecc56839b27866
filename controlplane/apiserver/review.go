package apiserver

import (
	"net/http"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/writ-os/writ/controlplane/auth/review"
	"github.com/writ-os/writ/schema"
)

// reviewSelf says who the server takes the client for.
func (s *Server) reviewSelf(x *exchange, o schema.Object) error {
	in := o.(*authenticationv1.SelfSubjectReview)
	out := &authenticationv1.SelfSubjectReview{TypeMeta: in.TypeMeta} // what was sent is not told back
	out.CreationTimestamp = metav1.NewTime(time.Now())
	out.Status.UserInfo = userInfo(x.user)
	return s.reply(x, out)
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
	if err := errReview(review.ValidateSelf(r)); err != nil {
		return err
	}
	r.Status = s.decide(x, review.Attributes(x.user, r.Spec.ResourceAttributes, r.Spec.NonResourceAttributes))
	return s.reply(x, r)
}

// reviewAccess says whether anybody may do something.
func (s *Server) reviewAccess(x *exchange, o schema.Object) error {
	r := o.(*authorizationv1.SubjectAccessReview)
	if err := errReview(review.ValidateSubject(r)); err != nil {
		return err
	}
	r.Status = s.decideSubject(x, &r.Spec)
	return s.reply(x, r)
}

// reviewLocalAccess is the same within one namespace.
func (s *Server) reviewLocalAccess(x *exchange, o schema.Object) error {
	r := o.(*authorizationv1.LocalSubjectAccessReview)
	if err := errReview(review.ValidateLocal(r)); err != nil {
		return err
	}
	r.Status = s.decideSubject(x, &r.Spec)
	return s.reply(x, r)
}

// errReview refuses a review. As upstream it names no kind.
func errReview(errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(kschema.GroupKind{Group: authz}, "", errs)
}

func (s *Server) decideSubject(x *exchange, spec *authorizationv1.SubjectAccessReviewSpec) authorizationv1.SubjectAccessReviewStatus {
	return s.decide(x, review.Attributes(review.User(spec), spec.ResourceAttributes, spec.NonResourceAttributes))
}

func (s *Server) decide(x *exchange, a *authorizer.AttributesRecord) authorizationv1.SubjectAccessReviewStatus {
	decision, reason, err := s.cfg.Authorizer.Authorize(x.r.Context(), a)
	return authorizationv1.SubjectAccessReviewStatus{
		Allowed: decision == authorizer.DecisionAllow, Denied: decision == authorizer.DecisionDeny,
		Reason: reason, EvaluationError: review.EvaluationError(err, a),
	}
}

// reviewSelfRules lists what the client may do in a namespace.
func (s *Server) reviewSelfRules(x *exchange, o schema.Object) error {
	in := o.(*authorizationv1.SelfSubjectRulesReview)
	if s.cfg.Rules == nil {
		return statusError(http.StatusNotFound, "NotFound", "the authorizer cannot list rules")
	}
	if in.Spec.Namespace == "" {
		return apierrors.NewBadRequest("no namespace on request")
	}
	resources, paths, incomplete, err := s.cfg.Rules.RulesFor(x.r.Context(), x.user, in.Spec.Namespace)
	r := &authorizationv1.SelfSubjectRulesReview{TypeMeta: in.TypeMeta} // upstream leaves out the spec
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
