package clienttest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

const namespace = "default"

// options are those of every write of the suite that names none of its own.
var options = client.WriteOptions{FieldManager: "clienttest"}

// Run runs what every client promises. open returns a client of an empty
// server; ctx carries what the client needs (a user).
func Run(t *testing.T, ctx context.Context, open func(t *testing.T) client.Interface) {
	for name, test := range map[string]func(*suite){
		"Life":            (*suite).life,
		"GeneratedName":   (*suite).generatedName,
		"StatusAndSpec":   (*suite).statusAndSpec,
		"Owners":          (*suite).owners,
		"NoChange":        (*suite).noChange,
		"DryRun":          (*suite).dryRun,
		"Patches":         (*suite).patches,
		"Apply":           (*suite).apply,
		"Finalizers":      (*suite).finalizers,
		"PodsEnd":         (*suite).podsEnd,
		"Preconditions":   (*suite).preconditions,
		"NamespaceEnds":   (*suite).namespaceEnds,
		"ListSelects":     (*suite).listSelects,
		"WatchFromStart":  (*suite).watchFromStart,
		"WatchResumes":    (*suite).watchResumes,
		"WatchSelects":    (*suite).watchSelects,
		"CacheFollows":    (*suite).cacheFollows,
		"TypeMetaIsThere": (*suite).typeMeta,
	} {
		t.Run(name, func(t *testing.T) {
			test(&suite{T: t, ctx: ctx, c: open(t)})
		})
	}
}

// suite is one test with its client.
type suite struct {
	*testing.T
	ctx context.Context
	c   client.Interface
}

// ok ends the test on an error.
func (s *suite) ok(what string, err error) {
	s.Helper()
	if err != nil {
		s.Fatalf("%s: %v", what, err)
	}
}

func (s *suite) is(what string, err error, want func(error) bool) {
	s.Helper()
	if !want(err) {
		s.Errorf("%s: got error %v", what, err)
	}
}

func configMap(name string, labels map[string]string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels},
		Data:       data,
	}
}

func pod(name string) *corev1.Pod {
	return &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "demo:v1"}}},
	}
}

func deployment(name string) *appsv1.Deployment {
	l := map[string]string{"app": name}
	return &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: l},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: l}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "demo:v1"}}}},
		},
	}
}

func create[T schema.Object](s *suite, o T) T {
	s.Helper()
	got, err := client.Create(s.ctx, s.c, o, options)
	s.ok("create "+schema.KeyOf(o).String(), err)
	return got
}

func copyOf[T schema.Object](o T) T { return o.DeepCopyObject().(T) }

func key(name string) schema.Key { return schema.Key{Namespace: namespace, Name: name} }

func (s *suite) life() {
	made := create(s, configMap("a", nil, map[string]string{"k": "1"}))
	if made.UID == "" || made.ResourceVersion == "" || made.CreationTimestamp.IsZero() {
		s.Errorf("created without identity: %+v", made.ObjectMeta)
	}
	_, err := client.Create(s.ctx, s.c, configMap("a", nil, nil), options)
	s.is("create again", err, apierrors.IsAlreadyExists)
	stale := configMap("b", nil, nil)
	stale.ResourceVersion = made.ResourceVersion
	_, err = client.Create(s.ctx, s.c, stale, options)
	s.is("create with a version", err, func(err error) bool { // none of the API's errors: upstream answers 500
		return err != nil && apierrors.ReasonForError(err) == metav1.StatusReasonUnknown && strings.Contains(err.Error(), "resourceVersion should not be set")
	})

	next := copyOf(made)
	next.Data["k"] = "2"
	updated, err := client.Update(s.ctx, s.c, next, options)
	s.ok("update", err)
	if updated.ResourceVersion == made.ResourceVersion || updated.UID != made.UID {
		s.Errorf("updated: %+v", updated.ObjectMeta)
	}
	_, err = client.Update(s.ctx, s.c, next, options)
	s.is("update of an old version", err, apierrors.IsConflict)
	_, err = client.Update(s.ctx, s.c, configMap("none", nil, nil), options)
	s.is("update of none", err, apierrors.IsNotFound)

	got, err := client.Get[*corev1.ConfigMap](s.ctx, s.c, key("a"))
	s.ok("get", err)
	if got.Data["k"] != "2" || got.ResourceVersion != updated.ResourceVersion {
		s.Errorf("got %+v", got)
	}
	s.ok("delete", client.Delete[*corev1.ConfigMap](s.ctx, s.c, key("a"), client.DeleteOptions{}))
	_, err = client.Get[*corev1.ConfigMap](s.ctx, s.c, key("a"))
	s.is("get of a deleted one", err, apierrors.IsNotFound)
	s.is("delete again", client.Delete[*corev1.ConfigMap](s.ctx, s.c, key("a"), client.DeleteOptions{}), apierrors.IsNotFound)
}

func (s *suite) generatedName() {
	o := configMap("", nil, nil)
	o.GenerateName = "gen-"
	a, b := create(s, o), create(s, o)
	if len(a.Name) != len("gen-")+5 || a.Name[:4] != "gen-" || a.Name == b.Name {
		s.Errorf("names: %q %q", a.Name, b.Name)
	}
}

// statusAndSpec: each half is written through its own door, metadata through
// both, and only a change of the spec counts as a generation.
func (s *suite) statusAndSpec() {
	d := deployment("web")
	d.Status.Replicas = 9
	made := create(s, d)
	if made.Status.Replicas != 0 || made.Generation != 1 {
		s.Errorf("created with status %+v, generation %d", made.Status, made.Generation)
	}
	next := copyOf(made)
	two := int32(2)
	next.Spec.Replicas, next.Status.Replicas = &two, 9
	updated, err := client.Update(s.ctx, s.c, next, options)
	s.ok("update", err)
	if updated.Generation != 2 || updated.Status.Replicas != 0 {
		s.Errorf("updated: generation %d, status %+v", updated.Generation, updated.Status)
	}
	next = copyOf(updated)
	next.Spec.Replicas, next.Status.Replicas = new(int32), 5
	next.Annotations = map[string]string{"note": "written with the status"}
	reported, err := client.UpdateStatus(s.ctx, s.c, next)
	s.ok("update status", err)
	if reported.Generation != 2 || *reported.Spec.Replicas != 2 || reported.Status.Replicas != 5 || len(reported.Annotations) != 1 {
		s.Errorf("reported: generation %d, replicas %d, annotations %v, status %+v", reported.Generation, *reported.Spec.Replicas, reported.Annotations, reported.Status)
	}
	labelled := copyOf(reported)
	labelled.Labels = map[string]string{"a": "b"}
	got, err := client.Update(s.ctx, s.c, labelled, options)
	s.ok("label", err)
	if got.Generation != 2 || got.Status.Replicas != 5 || got.Labels["a"] != "b" {
		s.Errorf("labelled: generation %d, status %+v", got.Generation, got.Status)
	}
}

// owners: a status that is written from an old object leaves alone who owns
// the fields.
func (s *suite) owners() {
	w := client.WriteOptions{FieldManager: "git"}
	one := `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"},"spec":{"selector":{"matchLabels":{"app":"web"}},
"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"web","image":"web:v1"}]}}%s}}`
	made, err := patch[*appsv1.Deployment](s, "web", types.ApplyPatchType, fmt.Sprintf(one, ""), w)
	s.ok("apply", err)
	_, err = patch[*appsv1.Deployment](s, "web", types.ApplyPatchType, fmt.Sprintf(one, `,"minReadySeconds":7`), w)
	s.ok("apply again", err)
	old := copyOf(made)
	old.ResourceVersion, old.Status.Replicas = "", 1
	got, err := client.UpdateStatus(s.ctx, s.c, old)
	s.ok("update status", err)
	for _, m := range got.ManagedFields {
		if m.Manager == "git" && strings.Contains(string(m.FieldsV1.GetRawBytes()), "minReadySeconds") {
			return
		}
	}
	s.Errorf("the owner of a field is forgotten: %v", got.ManagedFields)
}

func (s *suite) noChange() {
	made := create(s, configMap("a", nil, map[string]string{"k": "1"}))
	same, err := client.Update(s.ctx, s.c, copyOf(made), options)
	s.ok("update", err)
	if same.ResourceVersion != made.ResourceVersion {
		s.Errorf("an update that changes nothing was stored: %s, was %s", same.ResourceVersion, made.ResourceVersion)
	}
}

func (s *suite) dryRun() {
	_, err := client.Create(s.ctx, s.c, configMap("a", nil, nil), client.WriteOptions{FieldManager: "clienttest", DryRun: true})
	s.ok("create", err)
	_, err = client.Get[*corev1.ConfigMap](s.ctx, s.c, key("a"))
	s.is("get after a dry run", err, apierrors.IsNotFound)
	create(s, configMap("a", nil, nil))
	s.ok("delete", client.Delete[*corev1.ConfigMap](s.ctx, s.c, key("a"), client.DeleteOptions{DryRun: true}))
	_, err = client.Get[*corev1.ConfigMap](s.ctx, s.c, key("a"))
	s.ok("get after a dry delete", err)
}

func (s *suite) finalizers() {
	o := configMap("held", nil, nil)
	o.Finalizers = []string{"writ.dev/test"}
	create(s, o)
	s.ok("delete", client.Delete[*corev1.ConfigMap](s.ctx, s.c, key("held"), client.DeleteOptions{}))
	held, err := client.Get[*corev1.ConfigMap](s.ctx, s.c, key("held"))
	s.ok("get", err)
	if held.DeletionTimestamp == nil {
		s.Fatal("not marked as deleted")
	}
	next := copyOf(held)
	next.Finalizers = nil
	_, err = client.Update(s.ctx, s.c, next, options)
	s.ok("release", err)
	_, err = client.Get[*corev1.ConfigMap](s.ctx, s.c, key("held"))
	s.is("get after release", err, apierrors.IsNotFound)

	create(s, configMap("owner", nil, nil))
	s.ok("delete", client.Delete[*corev1.ConfigMap](s.ctx, s.c, key("owner"), client.DeleteOptions{Propagation: metav1.DeletePropagationForeground}))
	owner, err := client.Get[*corev1.ConfigMap](s.ctx, s.c, key("owner"))
	s.ok("get", err)
	if owner.DeletionTimestamp == nil || len(owner.Finalizers) != 1 || owner.Finalizers[0] != metav1.FinalizerDeleteDependents {
		s.Errorf("deleted in the foreground: %+v", owner.ObjectMeta)
	}
}

// podsEnd: a pod that a node runs gets its grace period; one that no node has
// goes at once.
func (s *suite) podsEnd() {
	create(s, pod("idle"))
	s.ok("delete", client.Delete[*corev1.Pod](s.ctx, s.c, key("idle"), client.DeleteOptions{}))
	_, err := client.Get[*corev1.Pod](s.ctx, s.c, key("idle"))
	s.is("get of an unbound one", err, apierrors.IsNotFound)

	made := create(s, pod("bound"))
	pods := schema.ResourceFor[*corev1.Pod]()
	b := &corev1.Binding{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Binding"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "bound", UID: made.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: "n1"},
	}
	w := options
	w.Subresource, w.Key = "binding", key("bound")
	_, err = s.c.Create(s.ctx, pods, b, w)
	s.ok("bind", err)
	_, err = s.c.Create(s.ctx, pods, b, w)
	s.is("bind again", err, apierrors.IsConflict)
	five := int64(5)
	s.ok("delete", client.Delete[*corev1.Pod](s.ctx, s.c, key("bound"), client.DeleteOptions{GracePeriodSeconds: &five}))
	ending, err := client.Get[*corev1.Pod](s.ctx, s.c, key("bound"))
	s.ok("get", err)
	if ending.Spec.NodeName != "n1" || ending.DeletionTimestamp == nil || ending.DeletionGracePeriodSeconds == nil || *ending.DeletionGracePeriodSeconds != 5 {
		s.Errorf("ending: %+v", ending.ObjectMeta)
	}
	s.ok("end", client.Delete[*corev1.Pod](s.ctx, s.c, key("bound"), client.DeleteOptions{GracePeriodSeconds: new(int64)}))
	_, err = client.Get[*corev1.Pod](s.ctx, s.c, key("bound"))
	s.is("get of an ended one", err, apierrors.IsNotFound)
}

func (s *suite) preconditions() {
	made := create(s, configMap("a", nil, nil))
	other, old := types.UID("other"), made.ResourceVersion
	s.is("delete of another", client.Delete[*corev1.ConfigMap](s.ctx, s.c, key("a"), client.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &other}}), apierrors.IsConflict)
	next := copyOf(made)
	next.Data = map[string]string{"k": "1"}
	_, err := client.Update(s.ctx, s.c, next, options)
	s.ok("update", err)
	s.is("delete of an old version", client.Delete[*corev1.ConfigMap](s.ctx, s.c, key("a"), client.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &old}}), apierrors.IsConflict)
	s.ok("delete", client.Delete[*corev1.ConfigMap](s.ctx, s.c, key("a"), client.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &made.UID}}))
}

// namespaceEnds: a namespace goes when its finalizer is taken off by the
// finalize subresource.
func (s *suite) namespaceEnds() {
	made := create(s, &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
	if made.Status.Phase != corev1.NamespaceActive || len(made.Spec.Finalizers) != 1 {
		s.Fatalf("created: %+v %+v", made.Spec, made.Status)
	}
	shop := schema.Key{Name: "shop"}
	s.ok("delete", client.Delete[*corev1.Namespace](s.ctx, s.c, shop, client.DeleteOptions{}))
	ending, err := client.Get[*corev1.Namespace](s.ctx, s.c, shop)
	s.ok("get", err)
	if ending.Status.Phase != corev1.NamespaceTerminating || ending.DeletionTimestamp == nil {
		s.Errorf("ending: %+v", ending)
	}
	next := copyOf(ending)
	next.Spec.Finalizers = nil
	w := options
	w.Subresource = "finalize"
	_, err = client.Update(s.ctx, s.c, next, w)
	s.ok("finalize", err)
	_, err = client.Get[*corev1.Namespace](s.ctx, s.c, shop)
	s.is("get of an ended one", err, apierrors.IsNotFound)
}

// typeMeta: whatever comes out carries its kind.
func (s *suite) typeMeta() {
	d := deployment("web")
	check := func(what string, o schema.Object) {
		s.Helper()
		if gvk := o.GetObjectKind().GroupVersionKind(); gvk != schema.ResourceOf(d).GVK() {
			s.Errorf("%s: kind %v", what, gvk)
		}
	}
	check("create", create(s, d))
	got, err := client.Get[*appsv1.Deployment](s.ctx, s.c, key("web"))
	s.ok("get", err)
	check("get", got)
	l, err := s.c.List(s.ctx, schema.ResourceOf(d), client.ListOptions{})
	s.ok("list", err)
	for _, o := range l.Items {
		check("list", o)
	}
	ctx, cancel := context.WithTimeout(s.ctx, 10*time.Second)
	defer cancel()
	w, err := s.c.Watch(ctx, schema.ResourceOf(d), client.WatchOptions{})
	s.ok("watch", err)
	defer w.Stop()
	check("watch", (<-w.Events()).Object)
}
