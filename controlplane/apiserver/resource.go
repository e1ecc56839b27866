package apiserver

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/warning"

	"github.com/writ-os/writ/controlplane/store"
	"github.com/writ-os/writ/schema"
)

var jobKind = kschema.GroupVersionKind{Group: "batch", Version: "v1", Kind: "Job"}

// serveResource serves a path below a group and version.
func (s *Server) serveResource(x *exchange) {
	rt := &x.route
	if err := s.loaded(x.r.Context()); err != nil {
		s.writeError(x, x.r, err)
		return
	}
	if v := virtualOf(rt); v != nil && x.known {
		s.serveVirtual(x, v)
		return
	}
	r := x.now.catalog.ByGVR(kschema.GroupVersionResource{Group: rt.Group, Version: rt.Version, Resource: rt.Plural})
	if r != nil && r.Custom != nil && !x.known { // a subresource that the definition does not have
		s.writeError(x, x.r, apierrors.NewNotFound(r.GroupResource(), rt.Name))
		return
	}
	if r == nil || !x.known {
		s.notFound(x)
		return
	}
	if r.Deprecated != "" {
		warning.AddWarning(x.r.Context(), "", r.Deprecated)
	}
	if !scopeFits(r, rt) {
		s.notFound(x)
		return
	}
	if err := s.cfg.Store.View().Unreadable(r); err != nil {
		if err := s.serveUnreadable(x, r, err); err != nil {
			s.writeError(x, x.r, err)
		}
		return
	}
	if err := s.serveVerb(x, r); err != nil {
		s.writeError(x, x.r, routerError(x, r, err))
	}
}

// routerError words a refusal as upstream's router does, which comes before the
// handlers of built-in kinds: none of the types that a client accepts exists.
func routerError(x *exchange, r *schema.Resource, err error) error {
	if apierrors.ReasonForError(err) != metav1.StatusReasonNotAcceptable || r.Custom != nil {
		return err
	}
	for _, c := range parseAccept(strings.Join(x.r.Header["Accept"], ",")) {
		if slices.Contains(mediaNames[:], c.mime) || c.mime == "*/*" {
			return err
		}
	}
	have := strings.Join(mediaNames[:], ", ")
	if isCollection(&x.route) {
		have += ", application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"
	}
	return apierrors.NewGenericServerResponse(http.StatusNotAcceptable, "", kschema.GroupResource{}, "",
		"406: Not Acceptable\n\nAvailable representations: "+have, 0, false)
}

// loaded waits until the store has loaded its objects: an empty list of a
// cluster that is only starting would have controllers tear it down.
func (s *Server) loaded(ctx context.Context) error {
	select {
	case <-s.cfg.Store.Ready():
		return nil
	default:
	}
	t := time.NewTimer(5 * time.Second)
	defer t.Stop()
	select {
	case <-s.cfg.Store.Ready():
		return nil
	case <-t.C:
	case <-ctx.Done():
	}
	err := apierrors.NewServiceUnavailable("the server is loading its objects")
	err.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: 1}
	return err
}

// scopeFits says whether a path has a namespace where the resource has one. All
// namespaces together have one path, that of the collection.
func scopeFits(r *schema.Resource, rt *route) bool {
	if !r.Namespaced {
		return rt.Namespace == "" || r.Plural == "namespaces"
	}
	return rt.Namespace != "" || isCollection(rt) || rt.Name == ""
}

// serveVerb calls the handler of a verb. An error is returned only while
// nothing has been sent.
func (s *Server) serveVerb(x *exchange, r *schema.Resource) error {
	rt := &x.route
	if r.Namespaced && rt.Namespace == "" && !isCollection(rt) {
		return errMethod(r, rt.Verb) // all namespaces can be listed and watched only
	}
	if x.r.Method == http.MethodHead || x.r.Method == http.MethodOptions || x.r.Method == http.MethodTrace {
		return errMethod(r, strings.ToLower(x.r.Method))
	}
	if rt.Subresource != "" {
		return s.serveSubresource(x, r)
	}
	if (rt.Verb == "create") == (rt.Name != "") && (rt.Verb == "create" || rt.Verb == "update" || rt.Verb == "patch") {
		return errMethod(r, rt.Verb)
	}
	if rt.Verb == "create" && isTerminating(r) {
		err := apierrors.NewMethodNotSupported(r.GroupResource(), rt.Verb)
		err.ErrStatus.Message = rt.Verb + " not allowed while custom resource definition is terminating"
		return err
	}
	switch rt.Verb {
	case "get":
		return s.get(x, r)
	case "list":
		return s.list(x, r)
	case "watch":
		return s.watch(x, r)
	case "create":
		return s.create(x, r)
	case "update":
		return s.update(x, r)
	case "patch":
		return s.patch(x, r)
	case "delete":
		return s.delete(x, r)
	case "deletecollection":
		if r == schema.ResourceFor[*corev1.Namespace]() {
			return errMethod(r, "delete") // nobody deletes all namespaces at once
		}
		return s.deleteCollection(x, r)
	}
	return errMethod(r, rt.Verb)
}

// isCollection says whether a route is about many objects, though a selector
// may have given it a name.
func isCollection(rt *route) bool { return rt.Verb == "list" || rt.Verb == "watch" }

// key is the key of the object that a route names.
func key(r *schema.Resource, rt *route) schema.Key {
	if !r.Namespaced {
		return schema.Key{Name: rt.Name}
	}
	return schema.Key{Namespace: rt.Namespace, Name: rt.Name}
}

// get answers a GET from the store's copy.
func (s *Server) get(x *exchange, r *schema.Resource) error {
	out, err := negotiate(x.r, allowFor(r))
	if err != nil {
		return err
	}
	text := ""
	if x.r.URL.RawQuery != "" {
		text = x.r.URL.Query().Get("resourceVersion")
	}
	v, err := schema.ParseResourceVersion(text)
	if err != nil {
		return errVersion(text, false)
	}
	if err := s.asked(x.r.Context(), text == "", v); err != nil {
		return err
	}
	it, err := x.now.views.of(r).one(x.r.Context(), s.cfg.Store.Get(r, key(r, &x.route)))
	if err != nil {
		return err
	}
	if it == nil {
		return apierrors.NewNotFound(r.GroupResource(), x.route.Name)
	}
	s.writeItem(x, r, http.StatusOK, out, it)
	return nil
}

// writeResult answers with what a write has made of an object. Where the store
// still has that very state, its shared bytes are used.
func (s *Server) writeResult(x *exchange, r *schema.Resource, code int, out output, o schema.Object) {
	it := s.cfg.Store.Get(r, schema.KeyOf(o))
	if it == nil || it.Object.GetResourceVersion() != o.GetResourceVersion() || it.Object.GetUID() != o.GetUID() || x.dryRun {
		v, _ := schema.ParseResourceVersion(o.GetResourceVersion())
		it = &store.Item{Resource: r.Stored(), Key: schema.KeyOf(o), Version: v, Object: o}
	}
	shown, err := x.now.views.of(r).one(x.r.Context(), it)
	if err != nil {
		s.writeError(x, x.r, err)
		return
	}
	s.writeItem(x, r, code, out, shown)
}
