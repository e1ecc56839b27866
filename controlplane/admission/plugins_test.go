package admission

import (
	"context"
	"slices"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

func pod(name string, opts ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	for _, o := range opts {
		o(p)
	}
	return p
}

func (c *cluster) account(namespace, name string) {
	c.create(system, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}})
}

// wantRefused demands a 403 with a text in it.
func wantRefused(t *testing.T, err error, text string) {
	t.Helper()
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), text) {
		t.Errorf("got  %v\nwant %s", err, text)
	}
}

func tryCreate(c *cluster, ctx context.Context, o schema.Object) error {
	_, err := c.Create(ctx, schema.ResourceOf(o), o, client.WriteOptions{FieldManager: "test"})
	return err
}

func TestNamespaceLifecycle(t *testing.T) {
	c := open(t, nil)
	cm := func(ns string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "c"}}
	}
	if err := tryCreate(c, admin, cm("nowhere")); !apierrors.IsNotFound(err) || err.Error() != `namespaces "nowhere" not found` {
		t.Errorf("create in no namespace: %v", err)
	}
	c.create(admin, cm("shop"))
	if err := c.Delete(admin, namespaces, schema.Key{Name: "shop"}, client.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	other := cm("shop")
	other.Name = "d"
	err := tryCreate(c, admin, other)
	wantRefused(t, err, `configmaps "d" is forbidden: unable to create new content in namespace shop because it is being terminated`)
	if !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		t.Errorf("no cause NamespaceTerminating in %+v", err)
	}
	if err := change(c, admin, shop("c"), "", func(m *corev1.ConfigMap) { m.Data = map[string]string{"a": "b"} }); err != nil {
		t.Errorf("update in an ending namespace: %v", err)
	}
	wantRefused(t, c.Delete(admin, namespaces, schema.Key{Name: "kube-system"}, client.DeleteOptions{}), `namespaces "kube-system" is forbidden: this namespace may not be deleted`)

	// A namespace and its content in one transaction.
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "new"}}
	_, err = c.Transact(git, []client.Op{
		{Verb: client.VerbCreate, Resource: namespaces, Key: schema.KeyOf(ns), Object: ns},
		{Verb: client.VerbCreate, Resource: configMaps, Key: schema.KeyOf(cm("new")), Object: cm("new")},
	}, false)
	if err != nil {
		t.Errorf("namespace and content in one transaction: %v", err)
	}
}

func TestServiceAccount(t *testing.T) {
	c := open(t, nil)
	err := tryCreate(c, admin, pod("early"))
	wantRefused(t, err, `pods "early" is forbidden: error looking up service account shop/default: serviceaccount "default" not found`)
	if err := tryCreate(c, git, pod("from-git")); err != nil {
		t.Errorf("pod of a commit before the account: %v", err)
	}

	c.account("shop", "default")
	got := c.create(admin, pod("p", func(p *corev1.Pod) {
		p.Spec.InitContainers = []corev1.Container{{Name: "init", Image: "i"}}
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "own", Image: "i",
			VolumeMounts: []corev1.VolumeMount{{Name: "v", MountPath: tokenMountPath}}})
		p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	})).(*corev1.Pod)
	if got.Spec.ServiceAccountName != "default" || len(got.Spec.Volumes) != 2 {
		t.Fatalf("account %q, volumes %v", got.Spec.ServiceAccountName, got.Spec.Volumes)
	}
	v := got.Spec.Volumes[1]
	if !strings.HasPrefix(v.Name, "kube-api-access-") || len(v.Name) != len("kube-api-access-")+5 {
		t.Errorf("name of the volume: %s", v.Name)
	}
	src := v.Projected.Sources
	if len(src) != 3 || *src[0].ServiceAccountToken.ExpirationSeconds != 3607 || src[1].ConfigMap.Name != "kube-root-ca.crt" || src[2].DownwardAPI.Items[0].FieldRef.FieldPath != "metadata.namespace" {
		t.Errorf("sources: %+v", src)
	}
	for _, ctr := range append(slices.Clone(got.Spec.InitContainers), got.Spec.Containers...) {
		if n := len(ctr.VolumeMounts); n != 1 || (ctr.Name == "own") == (ctr.VolumeMounts[0].Name == v.Name) {
			t.Errorf("mounts of %s: %v", ctr.Name, ctr.VolumeMounts)
		}
	}

	no := false
	c.create(system, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "shy"}, AutomountServiceAccountToken: &no,
		ImagePullSecrets: []corev1.LocalObjectReference{{Name: "pull"}}})
	shy := c.create(admin, pod("shy", func(p *corev1.Pod) { p.Spec.ServiceAccountName = "shy" })).(*corev1.Pod)
	if len(shy.Spec.Volumes) != 0 || len(shy.Spec.ImagePullSecrets) != 1 || shy.Spec.ImagePullSecrets[0].Name != "pull" {
		t.Errorf("pod without automount: %v, %v", shy.Spec.Volumes, shy.Spec.ImagePullSecrets)
	}
}

func TestPriority(t *testing.T) {
	c := open(t, nil)
	c.account("shop", "default")
	class := func(name string, value int32, isDefault bool) *schedulingv1.PriorityClass {
		return &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value, GlobalDefault: isDefault}
	}
	c.create(system, class("high", 1000, false))
	named := func(name string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.PriorityClassName = name }
	}
	if p := c.create(admin, pod("none")).(*corev1.Pod); *p.Spec.Priority != 0 || *p.Spec.PreemptionPolicy != corev1.PreemptLowerPriority {
		t.Errorf("priority %d, %s", *p.Spec.Priority, *p.Spec.PreemptionPolicy)
	}
	if p := c.create(admin, pod("high", named("high"))).(*corev1.Pod); *p.Spec.Priority != 1000 {
		t.Errorf("priority %d", *p.Spec.Priority)
	}
	wantRefused(t, tryCreate(c, admin, pod("x", named("missing"))), "no PriorityClass with name missing was found")
	seven := int32(7)
	wantRefused(t, tryCreate(c, admin, pod("x", named("high"), func(p *corev1.Pod) { p.Spec.Priority = &seven })),
		"the integer value of priority (7) must not be provided in pod spec; priority admission controller computed 1000 from the given PriorityClass name")
	c.create(system, class("normal", 5, true))
	if p := c.create(admin, pod("default")).(*corev1.Pod); *p.Spec.Priority != 5 || p.Spec.PriorityClassName != "normal" {
		t.Errorf("priority %d of %q", *p.Spec.Priority, p.Spec.PriorityClassName)
	}
	wantRefused(t, tryCreate(c, admin, class("second", 6, true)), "PriorityClass normal is already marked as default. Only one default can exist")
}

func TestTolerations(t *testing.T) {
	c := open(t, nil)
	c.account("shop", "default")
	ten := int64(10)
	got := c.create(admin, pod("p", func(p *corev1.Pod) {
		p.Spec.Tolerations = []corev1.Toleration{{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &ten}}
	})).(*corev1.Pod).Spec.Tolerations
	if len(got) != 2 || *got[0].TolerationSeconds != 10 || got[1].Key != corev1.TaintNodeUnreachable || *got[1].TolerationSeconds != 300 {
		t.Errorf("tolerations %+v", got)
	}
	all := c.create(admin, pod("all", func(p *corev1.Pod) {
		p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	})).(*corev1.Pod).Spec.Tolerations
	if len(all) != 1 {
		t.Errorf("tolerations %+v", all)
	}
}

func TestNodeRestriction(t *testing.T) {
	c := open(t, nil)
	c.account("shop", "default")
	newNode := func(name string, labels map[string]string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	}
	wantRefused(t, tryCreate(c, nodeA, newNode("b", nil)), `node "a" is not allowed to modify node "b"`)
	wantRefused(t, tryCreate(c, nodeA, newNode("a", map[string]string{"node-restriction.kubernetes.io/x": "y"})), "is not allowed to set the following labels: node-restriction.kubernetes.io/x")
	self := c.create(nodeA, newNode("a", map[string]string{"kubernetes.io/hostname": "a", "mine": "yes"})).(*corev1.Node)
	if len(self.Spec.Taints) != 1 || self.Spec.Taints[0].Key != corev1.TaintNodeNotReady {
		t.Errorf("taints of a new node: %v", self.Spec.Taints)
	}
	key := schema.Key{Name: "a"}
	wantRefused(t, change(c, nodeA, key, "", func(n *corev1.Node) { n.Spec.Taints = nil }), "is not allowed to modify taints")
	wantRefused(t, change(c, nodeA, key, "", func(n *corev1.Node) { n.Labels["node-role.kubernetes.io/control-plane"] = "" }), "is not allowed to modify labels: node-role.kubernetes.io/control-plane")
	// A node reports on its image, and takes no orders from itself.
	if err := change(c, nodeA, key, "", func(n *corev1.Node) { metav1.SetMetaDataAnnotation(&n.ObjectMeta, v1alpha1.ImageAnnotation, "1.2.3") }); err != nil {
		t.Errorf("own image: %v", err)
	}
	wantRefused(t, change(c, nodeA, key, "", func(n *corev1.Node) {
		metav1.SetMetaDataAnnotation(&n.ObjectMeta, v1alpha1.RebootAnnotation, "writ-1.2.3")
	}), "is not allowed to modify the annotations: writ.dev/reboot")
	if err := change(c, nodeA, key, "status", func(n *corev1.Node) { n.Status.Phase = corev1.NodeRunning }); err != nil {
		t.Errorf("own status: %v", err)
	}

	lease := func(ns, name string) *coordinationv1.Lease {
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
	}
	wantRefused(t, tryCreate(c, nodeA, lease("kube-node-lease", "b")), "can only access node lease with the same name as the requesting node")
	wantRefused(t, tryCreate(c, nodeA, lease("kube-system", "a")), `can only access leases in the "kube-node-lease" system namespace`)
	if err := tryCreate(c, nodeA, lease("kube-node-lease", "a")); err != nil {
		t.Errorf("own lease: %v", err)
	}

	onNode := func(name string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Spec.NodeName = name } }
	c.create(admin, pod("here", onNode("a")))
	c.create(admin, pod("there", onNode("b")))
	run := func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning }
	if err := change(c, nodeA, shop("here"), "status", run); err != nil {
		t.Errorf("status of own pod: %v", err)
	}
	wantRefused(t, change(c, nodeA, shop("there"), "status", run), `node "a" can only update pod status for pods with spec.nodeName set to itself`)
	wantRefused(t, c.Delete(nodeA, pods, shop("there"), client.DeleteOptions{}), `node "a" can only delete pods with spec.nodeName set to itself`)

	yes, no := true, false
	mirror := func(uid types.UID, change func(*corev1.Pod)) *corev1.Pod {
		return pod("mirror", onNode("a"), func(p *corev1.Pod) {
			p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "a", UID: uid, Controller: &yes, BlockOwnerDeletion: &no}}
			change(p)
		})
	}
	wantRefused(t, tryCreate(c, nodeA, pod("plain", onNode("a"))), "can only create mirror pods")
	wantRefused(t, tryCreate(c, nodeA, mirror("other", func(*corev1.Pod) {})), "UID mismatch")
	wantRefused(t, tryCreate(c, nodeA, mirror(self.UID, func(p *corev1.Pod) {
		p.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}}}}
	})), "can not create pods that reference secrets or configmaps")
	wantRefused(t, tryCreate(c, nodeA, mirror(self.UID, func(p *corev1.Pod) { p.Spec.ServiceAccountName = "default" })), "a mirror pod may not reference service accounts")
	if err := tryCreate(c, nodeA, mirror(self.UID, func(*corev1.Pod) {})); err != nil {
		t.Errorf("mirror pod: %v", err)
	}
}
