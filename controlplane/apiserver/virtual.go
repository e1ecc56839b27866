package apiserver

import (
	"net/http"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/writ-os/writ/schema"
)

// virtual is a resource that can only be created and is never stored: a
// question, and its answer.
type virtual struct {
	*schema.Resource
	answer func(s *Server, x *exchange, o schema.Object) error
}

func (v *virtual) verbs() []string {
	if v.Resource == componentStatuses {
		return []string{"get", "list"}
	}
	return []string{"create"}
}

// virtuals are all of them, in the order of discovery.
var virtuals = []*virtual{
	{question("", "Binding", "bindings", true, func() schema.Object { return &corev1.Binding{} }), nil},
	{componentStatuses, nil},
	{question(authn, "TokenReview", "tokenreviews", false, func() schema.Object { return &authenticationv1.TokenReview{} }), (*Server).reviewToken},
	{question(authn, "SelfSubjectReview", "selfsubjectreviews", false, func() schema.Object { return &authenticationv1.SelfSubjectReview{} }), (*Server).reviewSelf},
	{question(authz, "LocalSubjectAccessReview", "localsubjectaccessreviews", true, func() schema.Object { return &authorizationv1.LocalSubjectAccessReview{} }), (*Server).reviewLocalAccess},
	{question(authz, "SelfSubjectAccessReview", "selfsubjectaccessreviews", false, func() schema.Object { return &authorizationv1.SelfSubjectAccessReview{} }), (*Server).reviewSelfAccess},
	{question(authz, "SelfSubjectRulesReview", "selfsubjectrulesreviews", false, func() schema.Object { return &authorizationv1.SelfSubjectRulesReview{} }), (*Server).reviewSelfRules},
	{question(authz, "SubjectAccessReview", "subjectaccessreviews", false, func() schema.Object { return &authorizationv1.SubjectAccessReview{} }), (*Server).reviewAccess},
}

const (
	authn = "authentication.k8s.io"
	authz = "authorization.k8s.io"
)

func question(group, kind, plural string, namespaced bool, empty func() schema.Object) *schema.Resource {
	r := &schema.Resource{Group: group, Version: "v1", Kind: kind, Plural: plural, Singular: plural[:len(plural)-1], Namespaced: namespaced}
	r.New = func() schema.Object {
		o := empty()
		o.GetObjectKind().SetGroupVersionKind(r.GVK())
		return o
	}
	return r
}

// virtualOf finds the virtual resource that a route names.
func virtualOf(rt *route) *virtual {
	for _, v := range virtuals {
		if v.Plural == rt.Plural && v.Group == rt.Group && v.Version == rt.Version {
			return v
		}
	}
	return nil
}

// serveVirtual answers a question.
func (s *Server) serveVirtual(x *exchange, v *virtual) {
	rt := &x.route
	if v.Resource == componentStatuses {
		s.componentStatus(x, v.Resource)
		return
	}
	if v.Namespaced != (rt.Namespace != "") || rt.Name != "" {
		s.notFound(x)
		return
	}
	if rt.Verb != "create" {
		s.writeError(x, x.r, errMethod(v.Resource, rt.Verb))
		return
	}
	if v.answer == nil { // bindings of old
		if err := s.bind(x, schema.ResourceFor[*corev1.Pod]()); err != nil {
			s.writeError(x, x.r, err)
		}
		return
	}
	_, q, data, err := s.beginWrite(x, v.Resource, "CreateOptions")
	if err == nil {
		var o schema.Object
		if o, err = decodeBody(x, v.Resource, data, q.validation); err == nil {
			err = s.answer(x, v, o, q.manager)
		}
	}
	if err != nil {
		s.writeError(x, x.r, err)
	}
}

// answer answers a question that has been read.
func (s *Server) answer(x *exchange, v *virtual, o schema.Object, manager string) error {
	if err := setNamespace(v.Resource, &x.route, o); err != nil {
		return err
	}
	x.event.Request(v.Resource, "", o)
	s.owners.set(v.Resource, "", o, manager)
	return v.answer(s, x, o)
}

// reply writes the answer to a question.
func (s *Server) reply(x *exchange, o runtime.Object) error {
	out, err := negotiate(x.r, allowPlain)
	if err != nil {
		return err
	}
	writeObject(x, x.r, http.StatusCreated, out, o)
	return nil
}
