package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/writ-os/writ/controlplane/registry"
	"github.com/writ-os/writ/controlplane/store"
	"github.com/writ-os/writ/schema"
)

// statusOf turns any error into the Status that goes over the wire. Errors
// become a Status here and nowhere else.
func statusOf(err error) *metav1.Status {
	var api apierrors.APIStatus
	switch {
	case errors.As(err, &api):
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		api = apierrors.NewTimeoutError("request did not complete within the allotted timeout", 0)
	case errors.Is(err, store.ErrUnavailable):
		api = registry.Unavailable(err)
	case errors.Is(err, store.ErrClosed):
		api = apierrors.NewServiceUnavailable("the server is shutting down")
	default: // as upstream: the text alone, without a reason
		api = statusError(http.StatusInternalServerError, "", err.Error())
	}
	st := api.Status()
	st.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	if st.Status == "" {
		st.Status = metav1.StatusFailure
	}
	if st.Code == 0 {
		st.Code = http.StatusInternalServerError
	}
	return &st
}

// writeError answers with the Status of an error, in the client's encoding.
func (s *Server) writeError(w http.ResponseWriter, r *http.Request, err error) {
	st := statusOf(err)
	h := w.Header()
	if st.Details != nil && st.Details.RetryAfterSeconds > 0 {
		h.Set("Retry-After", strconv.Itoa(int(st.Details.RetryAfterSeconds)))
	}
	out, nerr := negotiate(r, allowPlain)
	if nerr != nil {
		out = output{Media: mediaJSON}
	}
	if st.Code >= http.StatusInternalServerError {
		s.cfg.Log.Warn("request answered with a server error", "method", r.Method, "path", r.URL.Path, "code", st.Code, "err", err)
	}
	if x, ok := w.(*exchange); ok {
		x.event.Response(st)
	}
	writeObject(w, r, int(st.Code), out, st)
}

func statusError(code int, reason metav1.StatusReason, message string) *apierrors.StatusError {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message,
	}}
}

// errUnreadable answers for a resource of which this server cannot read all
// values: what exists must not look deleted.
func errUnreadable(err error) error {
	return statusError(http.StatusInternalServerError, metav1.StatusReasonInternalError, "Internal error occurred: "+err.Error())
}

func errNotAcceptable(accepted []string) error {
	return statusError(http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable,
		"only the following media types are accepted: "+strings.Join(accepted, ", "))
}

func errUnsupportedMediaType(accepted []string) error {
	return statusError(http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType,
		"the body of the request was in an unknown format - accepted media types include: "+strings.Join(accepted, ", "))
}

// html keeps error texts from looking like HTML to a browser.
var html = strings.NewReplacer(`&`, "&amp;", `<`, "&lt;", `>`, "&gt;")

// errForbidden says what the authorizer refused, in upstream's words.
func errForbidden(a authorizer.Attributes, reason string) error {
	msg := html.Replace(forbiddenText(a))
	if reason != "" {
		msg += ": " + reason
	}
	gr := kschema.GroupResource{Group: a.GetAPIGroup(), Resource: a.GetResource()}
	return apierrors.NewForbidden(gr, a.GetName(), errors.New(msg))
}

func forbiddenText(a authorizer.Attributes) string {
	name := ""
	if u := a.GetUser(); u != nil {
		name = u.GetName()
	}
	if !a.IsResourceRequest() {
		return fmt.Sprintf("User %q cannot %s path %q", name, a.GetVerb(), a.GetPath())
	}
	resource := a.GetResource()
	if sub := a.GetSubresource(); sub != "" {
		resource += "/" + sub
	}
	where := "at the cluster scope"
	if ns := a.GetNamespace(); ns != "" {
		where = fmt.Sprintf("in the namespace %q", ns)
	}
	return fmt.Sprintf("User %q cannot %s resource %q in API group %q %s", name, a.GetVerb(), resource, a.GetAPIGroup(), where)
}

// errTooLargeVersion asks the client to come back when the server has reached
// the version that it has already seen elsewhere.
func errTooLargeVersion(want, have schema.ResourceVersion) error {
	err := apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %d, current: %d", want, have), 1)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{
		Type: metav1.CauseTypeResourceVersionTooLarge, Message: "Too large resource version",
	}}
	return err
}

// errExpired tells a client to list again: what it watched from is older than
// what is kept.
func errExpired(from, kept schema.ResourceVersion) error {
	return apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", from, kept))
}

// errPastGone says that the state at an exact version is no longer known.
func errPastGone() error {
	return apierrors.NewResourceExpired("The resourceVersion for the provided list is too old.")
}

// errVersion refuses a resourceVersion that is none. To upstream it is a bad
// list, but a get or a watch that failed in an unknown way.
func errVersion(v string, list bool) error {
	_, err := strconv.ParseUint(v, 10, 64)
	if err == nil {
		return nil
	}
	text := field.Invalid(field.NewPath("resourceVersion"), v, err.Error()).Error()
	if list {
		return apierrors.NewBadRequest("invalid resource version: " + text)
	}
	return statusError(http.StatusInternalServerError, "", text)
}

// errMethod refuses a method on a path that exists: of built-in kinds upstream's
// router does it, of custom resources their handler.
func errMethod(r *schema.Resource, verb string) error {
	if r.Custom != nil {
		return apierrors.NewMethodNotSupported(r.GroupResource(), verb)
	}
	return apierrors.NewGenericServerResponse(http.StatusMethodNotAllowed, "", kschema.GroupResource{}, "", "405: Method Not Allowed", 0, false)
}

// errNoPath is how upstream's router answers for paths below a built-in group
// that lead nowhere.
func errNoPath() error {
	return apierrors.NewGenericServerResponse(http.StatusNotFound, "", kschema.GroupResource{}, "", "404: Not Found", 0, false)
}

// notFound answers for a path that leads nowhere. What is below a built-in group
// has a router that says so in the API's own form.
func (s *Server) notFound(x *exchange) {
	if x.route.IsResource && x.now != nil && x.now.discovery.builtin[x.route.Group] {
		s.writeError(x, x.r, errNoPath())
		return
	}
	notFoundPage(x)
}

// notFoundPage answers for paths that no handler serves: upstream's mux does
// it in plain text, and clients turn it into "the server could not find the
// requested resource".
func notFoundPage(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(http.StatusNotFound)
	_, _ = w.Write([]byte("404 page not found\n"))
}
