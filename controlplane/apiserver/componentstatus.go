package apiserver

import (
	"net/http"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/store"
	"github.com/writ-os/writ/schema"
)

// componentStatuses are what was there before health endpoints. Some tools
// still ask for them.
var componentStatuses = &schema.Resource{
	Version: "v1", Kind: "ComponentStatus", ListKind: "ComponentStatusList", Plural: "componentstatuses", Singular: "componentstatus",
	ShortNames: []string{"cs"}, Columns: []schema.Column{{Name: "Name", Type: "string", Format: "name", Path: "metadata.name"}},
	Deprecated: "v1 ComponentStatus is deprecated in v1.19+",
	New: func() schema.Object {
		return &corev1.ComponentStatus{TypeMeta: metav1.TypeMeta{Kind: "ComponentStatus", APIVersion: "v1"}}
	},
	NewList: func() metav1.ListInterface {
		return &corev1.ComponentStatusList{TypeMeta: metav1.TypeMeta{Kind: "ComponentStatusList", APIVersion: "v1"}}
	},
}

// components are those that upstream names.
var components = []string{"controller-manager", "etcd-0", "scheduler"}

// componentStatus answers for componentstatuses: parts of one process are as
// healthy as the process.
func (s *Server) componentStatus(x *exchange, r *schema.Resource) {
	rt := &x.route
	out, err := negotiate(x.r, allowObjects)
	var items []*store.Item
	for _, name := range components {
		if rt.Name == "" || rt.Name == name {
			items = append(items, s.component(r, name))
		}
	}
	switch {
	case rt.Verb != "get" && rt.Verb != "list":
		err = errMethod(r, rt.Verb)
	case err != nil:
	case rt.Namespace != "" || rt.Subresource != "":
		err = errNoPath()
	case rt.Verb == "list":
		err = s.writeList(x, r, out, &listPage{items: items})
	case len(items) == 0:
		err = apierrors.NewNotFound(r.GroupResource(), rt.Name)
	default:
		s.writeItem(x, r, http.StatusOK, out, items[0])
	}
	if err != nil {
		s.writeError(x, x.r, routerError(x, r, err))
	}
}

func (s *Server) component(r *schema.Resource, name string) *store.Item {
	o := r.New().(*corev1.ComponentStatus)
	o.Name = name
	o.Conditions = []corev1.ComponentCondition{{Type: corev1.ComponentHealthy, Status: corev1.ConditionTrue, Message: "ok"}}
	return &store.Item{Resource: r, Key: schema.Key{Name: name}, Object: o}
}
