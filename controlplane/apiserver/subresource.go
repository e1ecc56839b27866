package apiserver

import (
	"net/http"

	authenticationv1 "k8s.io/api/authentication/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/store"
	"github.com/writ-os/writ/schema"
)

// serveSubresource serves what is below an object.
func (s *Server) serveSubresource(x *exchange, r *schema.Resource) error {
	rt := &x.route
	verb := rt.Verb
	switch rt.Subresource {
	case "finalize":
		if verb == "update" {
			return s.update(x, r)
		}
	case "status", "ephemeralcontainers", "resize", "approval":
		switch verb {
		case "get":
			return s.get(x, r)
		case "update":
			return s.update(x, r)
		case "patch":
			return s.patch(x, r)
		}
	case "scale":
		return s.scale(x, r)
	case "binding":
		if verb == "create" {
			return s.bind(x, r)
		}
	case "eviction":
		if verb == "create" {
			return s.evict(x, r)
		}
	case "token":
		if verb == "create" && s.cfg.Tokens != nil {
			return s.issueToken(x)
		}
	case "log":
		if verb == "get" {
			return s.log(x)
		}
	case "exec", "attach", "portforward":
		return s.stream(x, r)
	case "proxy":
		return s.proxy(x, r)
	}
	return errMethod(r, verb)
}

// Shapes of bodies that are no resources of the table.
var (
	scaleBody = &schema.Resource{Group: "autoscaling", Version: "v1", Kind: "Scale", New: func() schema.Object {
		return &autoscalingv1.Scale{TypeMeta: metav1.TypeMeta{Kind: "Scale", APIVersion: "autoscaling/v1"}}
	}, Columns: []schema.Column{
		{Name: "Name", Type: "string", Path: "metadata.name", Description: metav1.ObjectMeta{}.SwaggerDoc()["name"]},
		{Name: "Desired", Type: "integer", Path: "spec.replicas", Description: autoscalingv1.ScaleSpec{}.SwaggerDoc()["replicas"]},
		{Name: "Available", Type: "integer", Path: "status.replicas", Description: autoscalingv1.ScaleStatus{}.SwaggerDoc()["replicas"]},
		{Name: "Age", Type: "string", Func: "age", Description: metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"]},
	}}
	bindingBody = &schema.Resource{Version: "v1", Kind: "Binding", New: func() schema.Object {
		return &corev1.Binding{TypeMeta: metav1.TypeMeta{Kind: "Binding", APIVersion: "v1"}}
	}}
	evictionBody = &schema.Resource{Group: "policy", Version: "v1", Kind: "Eviction", New: func() schema.Object {
		return &policyv1.Eviction{TypeMeta: metav1.TypeMeta{Kind: "Eviction", APIVersion: "policy/v1"}}
	}}
	tokenBody = &schema.Resource{Group: "authentication.k8s.io", Version: "v1", Kind: "TokenRequest", New: func() schema.Object {
		return &authenticationv1.TokenRequest{TypeMeta: metav1.TypeMeta{Kind: "TokenRequest", APIVersion: "authentication.k8s.io/v1"}}
	}}
)

// scale reads and writes the number of replicas as an autoscaling/v1 Scale.
func (s *Server) scale(x *exchange, r *schema.Resource) error {
	var o schema.Object
	out, err := negotiate(x.r, allowObjects)
	if err != nil {
		return err
	}
	ctx, k := x.r.Context(), key(r, &x.route)
	switch x.route.Verb {
	case "get":
		o, err = s.cfg.Registry.GetSubresource(ctx, r, k, "scale")
	case "update":
		o, err = s.updateScale(x, r, k)
	case "patch":
		o, err = s.patchScale(x, r, k)
	default:
		return errMethod(r, x.route.Verb)
	}
	if err != nil {
		return err
	}
	v, _ := schema.ParseResourceVersion(o.GetResourceVersion()) // a dry run has none
	s.writeItem(x, scaleBody, http.StatusOK, out, &store.Item{Resource: scaleBody, Key: k, Version: v, Object: o})
	return nil
}

func (s *Server) updateScale(x *exchange, r *schema.Resource, k schema.Key) (schema.Object, error) {
	_, q, data, err := s.beginWrite(x, scaleBody, "UpdateOptions")
	if err != nil {
		return nil, err
	}
	o, err := decodeBody(x, scaleBody, data, q.validation)
	if err != nil {
		return nil, err
	}
	if err := setNamespace(r, &x.route, o); err != nil {
		return nil, err
	}
	return s.cfg.Registry.Update(x.r.Context(), r, o, q.options(x, k))
}

func (s *Server) patchScale(x *exchange, r *schema.Resource, k schema.Key) (schema.Object, error) {
	t, err := patchType(x.r, r)
	if err != nil {
		return nil, err
	}
	data, err := readBody(x)
	if err != nil {
		return nil, err
	}
	q, err := parseWriteQuery(x, "PatchOptions", t)
	if err != nil {
		return nil, err
	}
	return s.cfg.Registry.Patch(x.r.Context(), r, k, t, data, q.options(x, k))
}

// postBody reads what is posted below an object.
func (s *Server) postBody(x *exchange, body *schema.Resource) (schema.Object, *writeQuery, error) {
	_, q, data, err := s.beginWrite(x, body, "CreateOptions")
	if err != nil {
		return nil, nil, err
	}
	o, err := decodeBody(x, body, data, q.validation)
	if err != nil {
		return nil, nil, err
	}
	rt := &x.route
	if ns := o.GetNamespace(); ns != "" && ns != rt.Namespace {
		return nil, nil, apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	if name := o.GetName(); name != "" && rt.Name != "" && name != rt.Name {
		return nil, nil, apierrors.NewBadRequest("name in URL does not match name in " + body.Kind + " object")
	}
	o.SetNamespace(rt.Namespace)
	if rt.Name != "" {
		o.SetName(rt.Name)
	}
	return o, q, nil
}

// bind puts a pod on a node: pods/<name>/binding, and namespaces/<ns>/bindings
// of old.
func (s *Server) bind(x *exchange, pods *schema.Resource) error {
	o, q, err := s.postBody(x, bindingBody)
	if err != nil {
		return err
	}
	w := client.WriteOptions{Subresource: "binding", Key: schema.KeyOf(o), FieldManager: q.manager, DryRun: q.dryRun}
	if _, err := s.cfg.Registry.Create(x.r.Context(), pods, o, w); err != nil {
		return err
	}
	return s.writeSuccess(x)
}

// writeSuccess answers that a subresource was created.
func (s *Server) writeSuccess(x *exchange) error {
	out, err := negotiate(x.r, allowPlain)
	if err != nil {
		return err
	}
	writeObject(x, x.r, http.StatusCreated, out, &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusSuccess, Code: http.StatusCreated,
	})
	return nil
}

// tokenSeconds is how long a token is good for unless its request says.
const tokenSeconds = 60 * 60

// issueToken answers serviceaccounts/<name>/token.
func (s *Server) issueToken(x *exchange) error {
	out, q, data, err := s.beginWrite(x, tokenBody, "CreateOptions")
	if err != nil {
		return err
	}
	o, err := decodeBody(x, tokenBody, data, q.validation)
	if err != nil {
		return err
	}
	if err := setNamespace(&schema.Resource{Namespaced: true}, &x.route, o); err != nil {
		return err
	}
	x.event.Request(tokenBody, "token", o)
	if spec := &o.(*authenticationv1.TokenRequest).Spec; spec.ExpirationSeconds == nil {
		spec.ExpirationSeconds = ptr.To[int64](tokenSeconds) // a default, which the client owns as if it had sent it
	}
	s.owners.set(tokenBody, "token", o, q.manager)
	k := schema.Key{Namespace: x.route.Namespace, Name: x.route.Name}
	made, err := s.cfg.Tokens.Request(x.r.Context(), k, o.(*authenticationv1.TokenRequest))
	if err != nil {
		return err
	}
	writeObject(x, x.r, http.StatusCreated, out, made)
	return nil
}

// evict asks for the deletion of a pod, which disruption budgets may refuse.
func (s *Server) evict(x *exchange, pods *schema.Resource) error {
	o, q, err := s.postBody(x, evictionBody)
	if err != nil {
		return err
	}
	w := client.WriteOptions{Subresource: "eviction", Key: schema.KeyOf(o), FieldManager: q.manager, DryRun: q.dryRun}
	if _, err := s.cfg.Registry.Create(x.r.Context(), pods, o, w); err != nil {
		return err
	}
	return s.writeSuccess(x)
}
