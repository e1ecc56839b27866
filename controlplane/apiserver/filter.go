package apiserver

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/writ-os/writ/controlplane/apiserver/fieldpath"
	"github.com/writ-os/writ/controlplane/store"
	"github.com/writ-os/writ/schema"
)

// filter says which objects a request is about.
type filter struct {
	namespace string
	name      string // from the path or from metadata.name=...; "" is any
	node      string // from spec.nodeName=..., for which the store has an index
	labels    labels.Selector
	fields    []fieldTerm
	// show is how objects look to the client, whose fields are asked for; nil:
	// as they are. err is the first that it met.
	show func(*store.Item) (*store.Item, error)
	err  error
}

// fieldTerm is one requirement of a field selector.
type fieldTerm struct {
	read  func(*store.Item) string
	value string
	equal bool
}

// one says that at most one object of r can match: its whole key is asked for.
func (f *filter) one(r *schema.Resource) bool {
	return f.name != "" && (f.namespace != "" || !r.Namespaced)
}

func newFilter(r *schema.Resource, rt *route, in *internalversion.ListOptions) (filter, error) {
	f := filter{namespace: rt.Namespace}
	if !r.Namespaced {
		f.namespace = ""
	}
	if in.LabelSelector != nil && !in.LabelSelector.Empty() {
		f.labels = in.LabelSelector
	}
	if in.FieldSelector != nil {
		for _, req := range in.FieldSelector.Requirements() {
			if err := f.addField(r, req); err != nil {
				return f, apierrors.NewBadRequest(err.Error())
			}
		}
	}
	if rt.Name != "" && (rt.Verb == "list" || rt.Verb == "watch") {
		if f.name != "" && f.name != rt.Name {
			return f, apierrors.NewBadRequest("fieldSelector metadata.name doesn't match requested name")
		}
		f.name = rt.Name
	}
	return f, nil
}

func (f *filter) addField(r *schema.Resource, req fields.Requirement) error {
	equal := req.Operator == selection.Equals || req.Operator == selection.DoubleEquals
	if equal && req.Field == "metadata.name" && f.name == "" && req.Value != "" {
		f.name = req.Value
		return nil
	}
	read, err := fieldReader(r, req.Field)
	if err != nil {
		return err
	}
	f.fields = append(f.fields, fieldTerm{read: read, value: req.Value, equal: equal})
	if equal && r.Plural == "pods" && req.Field == "spec.nodeName" && req.Value != "" {
		f.node = req.Value
	}
	return nil
}

// fieldReader returns the code that reads a selectable field of a kind.
func fieldReader(r *schema.Resource, label string) (func(*store.Item) string, error) {
	switch label {
	case "metadata.name":
		return func(it *store.Item) string { return it.Key.Name }, nil
	case "metadata.namespace":
		if r.Namespaced {
			return func(it *store.Item) string { return it.Key.Namespace }, nil
		}
	}
	for _, have := range r.SelectableFields {
		if have != label {
			continue
		}
		if r.Custom != nil {
			read := customField(label)
			return func(it *store.Item) string { return read(contentOf(it)) }, nil
		}
		if read := specialField(r.Kind, label); read != nil {
			return read, nil
		}
		p, err := fieldpath.Compile(r.New(), label)
		if err != nil {
			return nil, fmt.Errorf("read field label %s: %w", label, err)
		}
		return func(it *store.Item) string { return p.Text(it.Object) }, nil
	}
	if len(r.SelectableFields) > 0 || r.Custom != nil {
		return nil, fmt.Errorf("field label not supported: %s", label)
	}
	return nil, fmt.Errorf("%q is not a known field selector: only \"metadata.name\", \"metadata.namespace\"", label)
}

// contentOf returns the fields of a custom resource.
func contentOf(it *store.Item) map[string]any {
	u, _ := it.Object.(*unstructured.Unstructured)
	if u == nil {
		return nil
	}
	return u.Object
}

// specialField reads labels that are not paths of the Go type.
func specialField(kind, label string) func(*store.Item) string {
	switch kind + " " + label {
	case "Event source":
		return func(it *store.Item) string {
			e := it.Object.(*corev1.Event)
			if e.Source.Component != "" {
				return e.Source.Component
			}
			return e.ReportingController
		}
	case "Event reportingComponent":
		return func(it *store.Item) string { return it.Object.(*corev1.Event).ReportingController }
	case "Pod status.podIP", "Pod status.podIPs":
		return func(it *store.Item) string { return it.Object.(*corev1.Pod).Status.PodIP }
	case "Pod spec.hostNetwork":
		return func(it *store.Item) string { return strconv.FormatBool(it.Object.(*corev1.Pod).Spec.HostNetwork) }
	case "Node spec.unschedulable":
		return func(it *store.Item) string { return strconv.FormatBool(it.Object.(*corev1.Node).Spec.Unschedulable) }
	case "Job status.successful":
		p, _ := fieldpath.Compile(schema.ByGVK(jobKind).New(), "status.succeeded")
		return func(it *store.Item) string { return p.Text(it.Object) }
	}
	return nil
}

// empty says whether the filter lets everything pass, apart from a namespace.
func (f *filter) empty() bool { return f.name == "" && f.labels == nil && len(f.fields) == 0 }

// matches says whether an item passes; nil never does.
func (f *filter) matches(it *store.Item) bool {
	if it == nil || f.namespace != "" && it.Key.Namespace != f.namespace || f.name != "" && it.Key.Name != f.name {
		return false
	}
	if len(f.fields) > 0 && f.show != nil {
		shown, err := f.show(it)
		if err != nil {
			if f.err == nil {
				f.err = err
			}
			return false
		}
		it = shown
	}
	for i := range f.fields {
		t := &f.fields[i]
		if (t.read(it) == t.value) != t.equal {
			return false
		}
	}
	return f.labels == nil || f.labels.Matches(labels.Set(it.Object.GetLabels()))
}
