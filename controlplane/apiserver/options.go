package apiserver

import (
	"net/url"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	internalvalidation "k8s.io/apimachinery/pkg/apis/meta/internalversion/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/writ-os/writ/schema"
)

// listOptions are the query of a LIST, WATCH or DELETECOLLECTION.
type listOptions struct {
	filter  filter
	version schema.ResourceVersion
	// any says that no version was asked for: "" or "0".
	any bool
	// latest says that no version was asked for, not even "0": what is answered
	// must hold all that was stored before, by any server.
	latest bool
	match  metav1.ResourceVersionMatch

	limit int64
	token string

	bookmarks bool
	// initial begins a watch with the objects that exist.
	initial bool
	timeout time.Duration
}

// parseListOptions reads the query of a request for resource r. Errors are
// those of the API.
func parseListOptions(r *schema.Resource, rt *route, q url.Values) (*listOptions, error) {
	in, err := decodeListOptions(q)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	in.Watch = rt.Verb == "watch"
	internalversion.SetListOptionsDefaults(in, true)
	if errs := internalvalidation.ValidateListOptions(in, true); len(errs) > 0 {
		return nil, apierrors.NewInvalid(kschema.GroupKind{Group: "meta.k8s.io", Kind: "ListOptions"}, "", errs)
	}
	o := &listOptions{
		match: in.ResourceVersionMatch, limit: in.Limit, token: in.Continue, bookmarks: in.AllowWatchBookmarks,
		any:     in.ResourceVersion == "" || in.ResourceVersion == "0",
		latest:  in.ResourceVersion == "",
		initial: in.SendInitialEvents != nil && *in.SendInitialEvents,
	}
	if o.version, err = schema.ParseResourceVersion(in.ResourceVersion); err != nil {
		return nil, errVersion(in.ResourceVersion, rt.Verb != "watch")
	}
	if in.ResourceVersion == "0" && o.token == "" {
		o.limit = 0 // whatever there is, all of it, as upstream's cache answers
	}
	if in.TimeoutSeconds != nil {
		o.timeout = time.Duration(*in.TimeoutSeconds) * time.Second
	}
	o.filter, err = newFilter(r, rt, in)
	return o, err
}

// decodeListOptions reads what we know of the query; other keys are ignored,
// as upstream ignores them.
func decodeListOptions(q url.Values) (*internalversion.ListOptions, error) {
	in := &internalversion.ListOptions{
		ResourceVersion:      q.Get("resourceVersion"),
		ResourceVersionMatch: metav1.ResourceVersionMatch(q.Get("resourceVersionMatch")),
		Continue:             q.Get("continue"),
		AllowWatchBookmarks:  isTrue(q["allowWatchBookmarks"]),
	}
	var err error
	if v := q.Get("labelSelector"); v != "" {
		if in.LabelSelector, err = labels.Parse(v); err != nil {
			return nil, err
		}
	}
	if v := q.Get("fieldSelector"); v != "" {
		if in.FieldSelector, err = fields.ParseSelector(v); err != nil {
			return nil, err
		}
	}
	if v := q.Get("limit"); v != "" {
		if in.Limit, err = strconv.ParseInt(v, 10, 64); err != nil {
			return nil, err
		}
	}
	if v := q.Get("timeoutSeconds"); v != "" {
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil {
			return nil, err
		}
		in.TimeoutSeconds = &n
	}
	if v, ok := q["sendInitialEvents"]; ok {
		b := isTrue(v)
		in.SendInitialEvents = &b
	}
	return in, nil
}
