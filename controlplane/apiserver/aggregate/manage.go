package aggregate

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

// The label of APIServices that stand for what is served here, and its values:
// those of the table are made at start and may then be changed, those of
// definitions are kept as they are.
const (
	managedLabel = "kube-aggregator.kubernetes.io/automanaged"
	onStart      = "onstart"
	always       = "true"
)

// step is one write that brings the managed APIServices in order.
type step struct {
	verb   string // create, update, delete
	object *apiregistrationv1.APIService
}

// plan compares the managed APIServices with what is served here. What somebody
// else has made under a name is left alone: that is how an API is moved to
// another server.
func plan(c *schema.Catalog, parts []InProcess, have []*apiregistrationv1.APIService, priority func(kschema.GroupVersion) (group, version int32)) []step {
	byName := map[string]*apiregistrationv1.APIService{}
	for _, s := range have {
		byName[s.Name] = s
	}
	wanted := map[string]bool{}
	var steps []step
	for _, r := range c.All() {
		gv := r.GVR().GroupVersion()
		name := gv.Version + "." + gv.Group
		if wanted[name] {
			continue
		}
		wanted[name] = true
		want := desired(name, gv, r.Custom != nil, priority)
		old := byName[name]
		switch {
		case old == nil:
			steps = append(steps, step{"create", want})
		case old.Labels[managedLabel] == always && old.Spec.Service != nil:
			fixed := old.DeepCopy()
			fixed.Spec = want.Spec
			steps = append(steps, step{"update", fixed})
		}
	}
	for i := range parts {
		gv := parts[i].groupVersion()
		name := gv.Version + "." + gv.Group
		wanted[name] = true
		if byName[name] == nil {
			steps = append(steps, step{"create", desired(name, gv, false, func(kschema.GroupVersion) (group, version int32) {
				return parts[i].GroupPriority, parts[i].VersionPriority
			})})
		}
	}
	for _, s := range have {
		if s.Labels[managedLabel] == always && !wanted[s.Name] && s.DeletionTimestamp == nil {
			steps = append(steps, step{"delete", s})
		}
	}
	return steps
}

func desired(name string, gv kschema.GroupVersion, custom bool, priority func(kschema.GroupVersion) (group, version int32)) *apiregistrationv1.APIService {
	label := onStart
	if custom {
		label = always
	}
	group, version := priority(gv)
	return &apiregistrationv1.APIService{
		TypeMeta:   metav1.TypeMeta{Kind: "APIService", APIVersion: apiregistrationv1.SchemeGroupVersion.String()},
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{managedLabel: label}},
		Spec:       apiregistrationv1.APIServiceSpec{Group: gv.Group, Version: gv.Version, GroupPriorityMinimum: group, VersionPriority: version},
	}
}

// manage carries the plan out. What fails is planned again with the next change.
func (a *Aggregator) manage(ctx context.Context) {
	if a.cfg.Priority == nil {
		return
	}
	var have []*apiregistrationv1.APIService
	for _, o := range a.cfg.Cache.List(services(), "") {
		if s, ok := o.(*apiregistrationv1.APIService); ok {
			have = append(have, s)
		}
	}
	for _, s := range plan(a.cfg.Catalog.Load(), a.cfg.InProcess, have, a.cfg.Priority) {
		if err := a.do(ctx, s); err != nil && !apierrors.IsAlreadyExists(err) && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			a.log.Warn("bring APIService in order", "verb", s.verb, "name", s.object.Name, "err", err)
		}
	}
}

func (a *Aggregator) do(ctx context.Context, s step) error {
	w := client.WriteOptions{FieldManager: "kube-apiserver"}
	var err error
	switch s.verb {
	case "create":
		_, err = a.cfg.Client.Create(ctx, services(), s.object, w)
	case "update":
		_, err = a.cfg.Client.Update(ctx, services(), s.object, w)
	case "delete":
		err = a.cfg.Client.Delete(ctx, services(), schema.Key{Name: s.object.Name}, client.DeleteOptions{})
	}
	return err
}
