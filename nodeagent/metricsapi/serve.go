package metricsapi

import (
	"encoding/json"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
)

const (
	group   = "metrics.k8s.io"
	version = group + "/v1beta1"
	prefix  = "/apis/" + version
)

// Resources is the discovery document of the group.
func Resources() *metav1.APIResourceList {
	verbs := metav1.Verbs{"get", "list"}
	return &metav1.APIResourceList{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}, GroupVersion: version,
		APIResources: []metav1.APIResource{
			{Name: "nodes", Kind: "NodeMetrics", Verbs: verbs},
			{Name: "pods", Kind: "PodMetrics", Namespaced: true, Verbs: verbs},
		},
	}
}

// ServeHTTP answers below /apis/metrics.k8s.io. Who may ask was decided before.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		fail(w, apierrors.NewMethodNotSupported(metricsv1beta1.Resource("metrics"), strings.ToLower(r.Method)))
		return
	}
	rest, ok := strings.CutPrefix(r.URL.Path, prefix)
	if !ok && strings.TrimSuffix(r.URL.Path, "/") == "/apis/"+group {
		v := metav1.GroupVersionForDiscovery{GroupVersion: version, Version: "v1beta1"}
		answer(w, http.StatusOK, &metav1.APIGroup{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroup"}, Name: group, Versions: []metav1.GroupVersionForDiscovery{v}, PreferredVersion: v,
		})
		return
	}
	filter, err := filterOf(r)
	if err != nil {
		fail(w, err)
		return
	}
	part := strings.Split(strings.Trim(rest, "/"), "/")
	switch {
	case !ok:
		http.NotFound(w, r)
	case part[0] == "":
		answer(w, http.StatusOK, Resources())
	case part[0] == "nodes" && len(part) == 1:
		answer(w, http.StatusOK, &metricsv1beta1.NodeMetricsList{
			TypeMeta: metav1.TypeMeta{APIVersion: version, Kind: "NodeMetricsList"}, Items: a.nodes(filter),
		})
	case part[0] == "nodes" && len(part) == 2:
		one(w, "nodes", part[1], a.nodes(named(part[1])))
	case part[0] == "pods" && len(part) == 1:
		a.servePods(w, "", filter)
	case part[0] == "namespaces" && len(part) == 3 && part[2] == "pods":
		a.servePods(w, part[1], filter)
	case part[0] == "namespaces" && len(part) == 4 && part[2] == "pods":
		one(w, "pods", part[3], a.pods(part[1], named(part[3])))
	default:
		http.NotFound(w, r)
	}
}

func (a *API) servePods(w http.ResponseWriter, namespace string, filter func(*metav1.ObjectMeta) bool) {
	answer(w, http.StatusOK, &metricsv1beta1.PodMetricsList{
		TypeMeta: metav1.TypeMeta{APIVersion: version, Kind: "PodMetricsList"}, Items: a.pods(namespace, filter),
	})
}

func named(name string) func(*metav1.ObjectMeta) bool {
	return func(m *metav1.ObjectMeta) bool { return m.Name == name }
}

// filterOf reads the selectors of a request. Of fields, names count.
func filterOf(r *http.Request) (func(*metav1.ObjectMeta) bool, error) {
	q := r.URL.Query()
	byLabel, err := labels.Parse(q.Get("labelSelector"))
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	byField, err := fields.ParseSelector(q.Get("fieldSelector"))
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return func(m *metav1.ObjectMeta) bool {
		return byLabel.Matches(labels.Set(m.Labels)) &&
			byField.Matches(fields.Set{"metadata.name": m.Name, "metadata.namespace": m.Namespace})
	}, nil
}

// one answers with the only thing of a list.
func one[T any](w http.ResponseWriter, resource, name string, list []T) {
	if len(list) == 0 {
		fail(w, apierrors.NewNotFound(metricsv1beta1.Resource(resource), name))
		return
	}
	answer(w, http.StatusOK, &list[0])
}

func fail(w http.ResponseWriter, err error) {
	st := apierrors.NewInternalError(err).Status()
	if s, ok := err.(apierrors.APIStatus); ok {
		st = s.Status()
	}
	st.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	answer(w, int(st.Code), &st)
}

func answer(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v) //nolint:errcheck // the client is gone
}
