package page

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// fixture is a cluster that has lived: three repositories, forty commits in all
// phases, hundreds of objects with what they own, six nodes, events, and pods
// that fail.
type fixture struct {
	*client.Fake
	now   time.Time
	uid   int
	files map[string]*v1alpha1.Inventory
	nodes []string
}

func ptr[T any](v T) *T { return &v }

// sha is a commit by number.
func sha(n int) string {
	return fmt.Sprintf("%08x%032x", uint32(n)*2654435761, uint64(n)*0x9e3779b97f4a7c15)
}

func newFixture(now time.Time) *fixture {
	f := &fixture{Fake: client.NewFake(), now: now, files: map[string]*v1alpha1.Inventory{}}
	f.makeNodes()
	f.platform()
	f.shop()
	f.data()
	f.makeCommits()
	for _, inv := range f.files {
		f.Put(inv)
	}
	f.makeRepositories()
	return f
}

func (f *fixture) ago(d time.Duration) metav1.Time { return metav1.NewTime(f.now.Add(-d)) }

func (f *fixture) nextUID() types.UID { f.uid++; return types.UID(fmt.Sprintf("uid-%06d", f.uid)) }

// meta is the metadata of an object.
func (f *fixture) meta(ns, name string, age time.Duration) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: ns, Name: name, UID: f.nextUID(), CreationTimestamp: f.ago(age), Generation: 1,
		Labels: map[string]string{"app.kubernetes.io/name": name, "app.kubernetes.io/part-of": ns}}
}

// declare puts an object and notes the file that it comes from.
func (f *fixture) declare(repo, file string, commit int, o schema.Object) schema.Object {
	o = f.Put(o)
	f.note(repo, file, commit, o)
	return o
}

func (f *fixture) note(repo, file string, commit int, o schema.Object) {
	inv := f.files[repo+"/"+file]
	if inv == nil {
		authors := []string{"Ada Lovelace <ada@example.com>", "Grace Hopper <grace@example.com>", "Edsger Dijkstra <edsger@example.com>", "Barbara Liskov <barbara@example.com>", "Renovate <renovate@example.com>"}
		inv = &v1alpha1.Inventory{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", repo, len(f.files))},
			Spec: v1alpha1.InventorySpec{Repository: repo, File: file, Commit: sha(commit), Author: authors[commit%len(authors)], Time: f.ago(time.Duration(commit) * 3 * time.Hour)}}
		f.files[repo+"/"+file] = inv
	}
	gvk := o.GetObjectKind().GroupVersionKind()
	inv.Spec.Objects = append(inv.Spec.Objects, v1alpha1.InventoryObject{Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind,
		Namespace: o.GetNamespace(), Name: o.GetName(), Line: 1 + 24*len(inv.Spec.Objects), Hash: "x"})
}

func owned(m metav1.ObjectMeta, o schema.Object) metav1.ObjectMeta {
	gvk := o.GetObjectKind().GroupVersionKind()
	m.OwnerReferences = []metav1.OwnerReference{{APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind, Name: o.GetName(), UID: o.GetUID(), Controller: ptr(true)}}
	return m
}

func podSpec(name, image string) corev1.PodSpec {
	return corev1.PodSpec{ServiceAccountName: name, Containers: []corev1.Container{{Name: name, Image: image, Ports: []corev1.ContainerPort{{ContainerPort: 8080}},
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m"), corev1.ResourceMemory: resource.MustParse("384Mi")}}}}}
}

// pod puts a pod that is as the trouble says: "" is well.
func (f *fixture) pod(ns, name, image, trouble string, owner schema.Object, age time.Duration) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: owned(f.meta(ns, name, age), owner), Spec: podSpec("app", image)}
	p.Spec.NodeName = f.nodes[f.uid%len(f.nodes)]
	p.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: fmt.Sprintf("10.244.%d.%d", f.uid%6, f.uid%250), QOSClass: corev1.PodQOSBurstable,
		Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: "True", LastTransitionTime: f.ago(age)}, {Type: corev1.PodReady, Status: "True", LastTransitionTime: f.ago(age)}}}
	st := corev1.ContainerStatus{Name: "app", Image: image, Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: f.ago(age)}}}
	warn := func(reason, message string, n int32) {
		f.event(p, "Warning", reason, message, n, 40*time.Second)
	}
	switch trouble {
	case "crash":
		st.Ready, st.RestartCount = false, 7
		st.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off 5m0s restarting failed container=app pod=" + name}}
		p.Status.Conditions[1].Status = "False"
	case "image":
		st.Ready = false
		p.Status.Phase = corev1.PodPending
		st.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: `Back-off pulling image "` + image + `": not found`}}
		p.Status.Conditions[1].Status = "False"
	case "starting":
		st.Ready = false
		p.Status.Phase = corev1.PodPending
		st.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}
		p.Status.Conditions[1].Status = "False"
	case "done":
		p.Status.Phase = corev1.PodSucceeded
		st.Ready, st.State = false, corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed"}}
		p.Status.Conditions[1].Status = "False"
	}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{st}
	p = f.Put(p).(*corev1.Pod)
	f.event(p, "Normal", "Scheduled", "Successfully assigned "+ns+"/"+name+" to "+p.Spec.NodeName, 1, age)
	switch trouble {
	case "crash":
		warn("BackOff", "Back-off restarting failed container app in pod "+name, 23)
		warn("Unhealthy", "Readiness probe failed: Get \"http://"+p.Status.PodIP+":8080/healthz\": connection refused", 9)
	case "image":
		warn("Failed", `Failed to pull image "`+image+`": not found`, 4)
	case "":
		f.event(p, "Normal", "Pulled", `Container image "`+image+`" already present on machine`, 1, age)
		f.event(p, "Normal", "Started", "Started container app", 1, age)
	}
	return p
}

func (f *fixture) event(o schema.Object, kind, reason, message string, n int32, age time.Duration) {
	gvk := o.GetObjectKind().GroupVersionKind()
	ns := o.GetNamespace()
	if ns == "" {
		ns = "default"
	}
	f.Put(&corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: fmt.Sprintf("%s.%d", o.GetName(), f.uid*10+f.Writes()), CreationTimestamp: f.ago(age)},
		InvolvedObject: corev1.ObjectReference{APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind, Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID()},
		Type:           kind, Reason: reason, Message: message, Count: n, FirstTimestamp: f.ago(age), LastTimestamp: f.ago(age)})
}

// deployment puts a Deployment with its ReplicaSets and pods. troubles are those
// of its first pods.
func (f *fixture) deployment(repo, file string, commit int, ns, name, image string, n int, troubles ...string) {
	d := &appsv1.Deployment{ObjectMeta: f.meta(ns, name, 26*24*time.Hour), Spec: appsv1.DeploymentSpec{Replicas: ptr(int32(n)), Strategy: appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType},
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}, Template: corev1.PodTemplateSpec{Spec: podSpec("app", image)}}}
	ready := int32(n - len(troubles))
	d.Status = appsv1.DeploymentStatus{ObservedGeneration: 1, Replicas: int32(n), UpdatedReplicas: int32(n), ReadyReplicas: ready, AvailableReplicas: ready, Conditions: []appsv1.DeploymentCondition{
		{Type: appsv1.DeploymentAvailable, Status: "True", Reason: "MinimumReplicasAvailable", Message: "Deployment has minimum availability.", LastTransitionTime: f.ago(25 * 24 * time.Hour)},
		{Type: appsv1.DeploymentProgressing, Status: "True", Reason: "NewReplicaSetAvailable", Message: "ReplicaSet has successfully progressed.", LastTransitionTime: f.ago(2 * time.Hour)}}}
	if len(troubles) > 0 && troubles[0] != "starting" {
		d.Status.Conditions[0].Status, d.Status.Conditions[0].Reason, d.Status.Conditions[0].Message = "False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability."
		d.Status.Conditions[1].Status, d.Status.Conditions[1].Reason, d.Status.Conditions[1].Message = "False", "ProgressDeadlineExceeded", `ReplicaSet "`+name+`-7d9c6f5b84" has timed out progressing.`
	}
	o := f.declare(repo, file, commit, d)
	old := &appsv1.ReplicaSet{ObjectMeta: owned(f.meta(ns, name+"-5b6d7c8f9d", 20*24*time.Hour), o), Spec: appsv1.ReplicaSetSpec{Replicas: ptr(int32(0))}}
	f.Put(old)
	rs := &appsv1.ReplicaSet{ObjectMeta: owned(f.meta(ns, name+"-7d9c6f5b84", 2*time.Hour), o), Spec: appsv1.ReplicaSetSpec{Replicas: ptr(int32(n))}}
	rs.Annotations = map[string]string{"deployment.kubernetes.io/revision": fmt.Sprint(commit%9 + 2)}
	rs.Status = appsv1.ReplicaSetStatus{ObservedGeneration: 1, Replicas: int32(n), ReadyReplicas: ready}
	r := f.Put(rs)
	f.event(o, "Normal", "ScalingReplicaSet", fmt.Sprintf("Scaled up replica set %s-7d9c6f5b84 to %d", name, n), 1, 2*time.Hour)
	for i := range n {
		trouble := ""
		if i < len(troubles) {
			trouble = troubles[i]
		}
		f.pod(ns, fmt.Sprintf("%s-7d9c6f5b84-%s", name, suffix(f.uid)), image, trouble, r, time.Duration(20+i)*time.Minute)
	}
}

func suffix(n int) string {
	const letters = "bcdfghjklmnpqrstvwxz2456789"
	b := make([]byte, 5)
	for i := range b {
		b[i] = letters[(n*7+i*n*13+i*5)%len(letters)]
	}
	return string(b)
}

// service declares what stands around a Deployment.
func (f *fixture) service(repo, file string, commit int, ns, name string) {
	f.declare(repo, file, commit, &corev1.ServiceAccount{ObjectMeta: f.meta(ns, name, 26*24*time.Hour)})
	f.declare(repo, file, commit, &corev1.ConfigMap{ObjectMeta: f.meta(ns, name+"-config", 26*24*time.Hour), Data: map[string]string{"LOG_LEVEL": "info", "config.yaml": "listen: :8080\ncache:\n  size: 64Mi\n"}})
	f.declare(repo, file, commit, &corev1.Service{ObjectMeta: f.meta(ns, name, 26*24*time.Hour), Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, ClusterIP: "10.96.14.7", ClusterIPs: []string{"10.96.14.7"},
		Selector: map[string]string{"app": name}, Ports: []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt32(8080), Protocol: "TCP"}}}})
}

func (f *fixture) namespace(repo string, commit int, name string) {
	f.declare(repo, "namespaces.yaml", commit, &corev1.Namespace{ObjectMeta: f.meta("", name, 90*24*time.Hour), Status: corev1.NamespaceStatus{Phase: corev1.NamespaceActive}})
}

func (f *fixture) makeNodes() {
	for i, name := range []string{"fra-cp-1", "fra-w-1", "fra-w-2", "fra-w-3", "fra-w-4", "fra-w-5"} {
		n := &corev1.Node{ObjectMeta: f.meta("", name, 90*24*time.Hour)}
		n.Labels = map[string]string{"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": fmt.Sprintf("fra-%c", 'a'+i%3), "writ.dev/image": "2026.11.2"}
		if i == 0 {
			n.Labels["node-role.kubernetes.io/control-plane"] = ""
		}
		room := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("32Gi"), corev1.ResourcePods: resource.MustParse("110")}
		n.Status = corev1.NodeStatus{Capacity: room, Allocatable: room, Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("10.20.0.%d", 11+i)}},
			NodeInfo: corev1.NodeSystemInfo{OSImage: "Writ 2026.11 (A)", KernelVersion: "6.12.43", KubeletVersion: "v1.36.4", ContainerRuntimeVersion: "containerd://2.3.7", Architecture: "amd64"}}
		ready := corev1.ConditionTrue
		pressure := corev1.ConditionFalse
		switch i {
		case 4:
			ready = corev1.ConditionUnknown
		case 5:
			pressure = corev1.ConditionTrue
		case 3:
			n.Spec.Unschedulable = true
		}
		n.Status.Conditions = []corev1.NodeCondition{
			{Type: corev1.NodeMemoryPressure, Status: pressure, Reason: "KubeletHasSufficientMemory", Message: "the node is low on memory", LastTransitionTime: f.ago(time.Hour)},
			{Type: corev1.NodeDiskPressure, Status: "False", Reason: "KubeletHasNoDiskPressure", Message: "kubelet has no disk pressure", LastTransitionTime: f.ago(90 * 24 * time.Hour)},
			{Type: corev1.NodePIDPressure, Status: "False", Reason: "KubeletHasSufficientPID", Message: "kubelet has sufficient PID available", LastTransitionTime: f.ago(90 * 24 * time.Hour)},
			{Type: corev1.NodeReady, Status: ready, Reason: "KubeletReady", Message: map[bool]string{true: "kubelet is posting ready status", false: "kubelet stopped posting node status"}[ready == corev1.ConditionTrue], LastTransitionTime: f.ago(11 * time.Minute)},
		}
		f.nodes = append(f.nodes, name)
		o := f.Put(n)
		if i == 4 {
			f.event(o, "Warning", "NodeNotReady", "Node fra-w-4 status is now: NodeNotReady", 1, 11*time.Minute)
		}
	}
}

func (f *fixture) platform() {
	const repo = "platform"
	for i, ns := range []string{"ingress", "monitoring", "cert-manager", "shop", "data"} {
		f.namespace(repo, 30+i%2, ns)
	}
	for i, name := range []string{"viewer", "deployer", "on-call"} {
		f.declare(repo, "rbac/roles.yaml", 28, &rbacv1.ClusterRole{ObjectMeta: f.meta("", name, 90*24*time.Hour), Rules: []rbacv1.PolicyRule{{Verbs: []string{"get", "list", "watch"}, APIGroups: []string{"*"}, Resources: []string{"*"}}}})
		f.declare(repo, "rbac/roles.yaml", 28, &rbacv1.ClusterRoleBinding{ObjectMeta: f.meta("", name, 90*24*time.Hour), Subjects: []rbacv1.Subject{{Kind: "Group", Name: name}}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: []string{"viewer", "deployer", "on-call"}[i]}})
	}
	f.service(repo, "ingress/controller.yaml", 12, "ingress", "ingress-nginx")
	ds := &appsv1.DaemonSet{ObjectMeta: f.meta("ingress", "ingress-nginx", 60*24*time.Hour), Spec: appsv1.DaemonSetSpec{Template: corev1.PodTemplateSpec{Spec: podSpec("controller", "registry.k8s.io/ingress-nginx/controller:v1.14.1")}},
		Status: appsv1.DaemonSetStatus{ObservedGeneration: 1, DesiredNumberScheduled: 6, NumberReady: 6, NumberAvailable: 6, UpdatedNumberScheduled: 6}}
	o := f.declare(repo, "ingress/controller.yaml", 12, ds)
	for range 6 {
		f.pod("ingress", "ingress-nginx-"+suffix(f.uid), "registry.k8s.io/ingress-nginx/controller:v1.14.1", "", o, 9*time.Hour)
	}
	for _, name := range []string{"prometheus", "grafana", "alertmanager", "kube-state-metrics"} {
		f.service(repo, "monitoring/"+name+".yaml", 9, "monitoring", name)
		f.deployment(repo, "monitoring/"+name+".yaml", 9, "monitoring", name, "quay.io/monitoring/"+name+":v3.8.1", 1)
	}
	f.declare(repo, "monitoring/grafana.yaml", 9, &corev1.Secret{ObjectMeta: f.meta("monitoring", "grafana-admin", 30*24*time.Hour), Type: corev1.SecretTypeOpaque, Data: map[string][]byte{"password": []byte("hunter2-never-shown")}})
	for _, name := range []string{"cert-manager", "cert-manager-webhook", "cert-manager-cainjector"} {
		f.service(repo, "cert-manager/cert-manager.yaml", 17, "cert-manager", name)
		f.deployment(repo, "cert-manager/cert-manager.yaml", 17, "cert-manager", name, "quay.io/jetstack/"+name+":v1.19.2", 1)
	}
}

func (f *fixture) shop() {
	const repo = "shop"
	for i, s := range []struct {
		name     string
		n        int
		troubles []string
	}{
		{"frontend", 4, nil}, {"cart", 3, nil}, {"checkout", 3, []string{"crash", "crash"}}, {"payment", 2, nil}, {"shipping", 2, nil}, {"catalog", 3, nil},
		{"recommendation", 2, []string{"image"}}, {"currency", 2, nil}, {"email", 1, nil}, {"ads", 2, []string{"starting"}}, {"reviews", 2, nil}, {"search", 3, nil}, {"sessions", 2, nil}, {"inventory", 2, nil}, {"pricing", 2, nil}, {"gateway", 12, nil},
	} {
		file := "apps/" + s.name + ".yaml"
		f.service(repo, file, 1+i%7, "shop", s.name)
		f.deployment(repo, file, 1+i%7, "shop", s.name, "ghcr.io/example/"+s.name+":v2.14."+fmt.Sprint(i), s.n, s.troubles...)
		f.declare(repo, file, 1+i%7, &networkingv1.NetworkPolicy{ObjectMeta: f.meta("shop", s.name, 26*24*time.Hour)})
	}
	f.declare(repo, "ingress.yaml", 8, &networkingv1.Ingress{ObjectMeta: f.meta("shop", "shop", 26*24*time.Hour), Spec: networkingv1.IngressSpec{Rules: []networkingv1.IngressRule{{Host: "shop.example.com"}}}})
	gone := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "feature-flags"}}
	f.note(repo, "flags.yaml", 5, gone)
	for i := range 110 {
		f.declare(repo, fmt.Sprintf("tenants/t%02d.yaml", i/11), 11, &corev1.ConfigMap{ObjectMeta: f.meta("shop", fmt.Sprintf("tenant-%03d", i), 9*24*time.Hour)})
	}
}

func (f *fixture) data() {
	const repo = "data"
	for _, s := range []struct{ name, image, trouble string }{{"postgres", "ghcr.io/cloudnative-pg/postgresql:18.1", ""}, {"redis", "docker.io/library/redis:8.4.0", ""}, {"kafka", "quay.io/strimzi/kafka:4.1.1", "starting"}} {
		file := s.name + "/" + s.name + ".yaml"
		f.service(repo, file, 14, "data", s.name)
		ready := int32(3)
		if s.trouble != "" {
			ready = 2
		}
		st := &appsv1.StatefulSet{ObjectMeta: f.meta("data", s.name, 60*24*time.Hour), Spec: appsv1.StatefulSetSpec{Replicas: ptr(int32(3)), ServiceName: s.name, Template: corev1.PodTemplateSpec{Spec: podSpec(s.name, s.image)}},
			Status: appsv1.StatefulSetStatus{ObservedGeneration: 1, Replicas: 3, ReadyReplicas: ready, UpdatedReplicas: 3, AvailableReplicas: ready}}
		o := f.declare(repo, file, 14, st)
		for i := range 3 {
			trouble := ""
			if i == 2 {
				trouble = s.trouble
			}
			f.pod("data", fmt.Sprintf("%s-%d", s.name, i), s.image, trouble, o, 50*time.Hour)
			f.declare(repo, file, 14, &corev1.PersistentVolumeClaim{ObjectMeta: f.meta("data", fmt.Sprintf("data-%s-%d", s.name, i), 60*24*time.Hour), Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound}, Spec: corev1.PersistentVolumeClaimSpec{VolumeName: fmt.Sprintf("pv-%s-%d", s.name, i)}})
		}
	}
	cj := f.declare(repo, "backup.yaml", 14, &batchv1.CronJob{ObjectMeta: f.meta("data", "backup", 60*24*time.Hour), Spec: batchv1.CronJobSpec{Schedule: "17 3 * * *"}})
	job := f.Put(&batchv1.Job{ObjectMeta: owned(f.meta("data", "backup-29397797", 3*time.Hour), cj), Status: batchv1.JobStatus{Succeeded: 1, Conditions: []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: "True"}}}})
	f.pod("data", "backup-29397797-"+suffix(3), "ghcr.io/example/backup:v4", "done", job, 3*time.Hour)
}

// makeCommits puts forty commits in all phases.
func (f *fixture) makeCommits() {
	type say struct{ repo, message string }
	says := []say{
		{"shop", "checkout: take the new payment API\n\nThe old one ends in December. Retries are bounded now, and the\ntimeout of a request is that of its caller.\n\nReviewed-by: Grace"}, {"shop", "frontend: four replicas before the sale"}, {"shop", "recommendation: v2.14.6"},
		{"platform", "monitoring: prometheus 3.8.1"}, {"shop", "ads: read the campaign from the catalog"}, {"data", "kafka: 4.1.1, one broker at a time"}, {"shop", "flags: move the feature flags here"},
		{"platform", "rbac: on-call may read the logs"}, {"shop", "ingress: shop.example.com"}, {"platform", "cert-manager: v1.19.2"},
	}
	authors := []string{"Ada Lovelace <ada@example.com>", "Grace Hopper <grace@example.com>", "Edsger Dijkstra <edsger@example.com>", "Barbara Liskov <barbara@example.com>", "Renovate <renovate@example.com>"}
	for i := range 40 {
		s := says[i%len(says)]
		if i >= len(says) {
			s.message = fmt.Sprintf("%s (%d)", strings.SplitN(s.message, "\n", 2)[0], 41-i)
		}
		at := f.now.Add(-time.Duration(i*i) * 9 * time.Minute).Add(-2 * time.Minute)
		if i < 2 {
			at = f.now.Add(-time.Duration(20+90*i) * time.Second)
		}
		c := &v1alpha1.Commit{ObjectMeta: metav1.ObjectMeta{Name: s.repo + "-" + sha(i + 1)[:12], CreationTimestamp: metav1.NewTime(at)},
			Spec: v1alpha1.CommitSpec{Repository: s.repo, SHA: sha(i + 1), Parent: sha(i + 2), Branch: "main", Author: authors[(i+1)%len(authors)], Message: s.message, Time: metav1.NewTime(at)}}
		f.phase(c, i, at)
		f.Put(c)
	}
}

func (f *fixture) phase(c *v1alpha1.Commit, i int, at time.Time) {
	micro := func(d time.Duration) *metav1.MicroTime { t := metav1.NewMicroTime(at.Add(d)); return &t }
	s := &c.Status
	s.SeenTime, s.RenderedTime, s.PlannedTime, s.AppliedTime = micro(0), micro(14*time.Millisecond), micro(31*time.Millisecond), micro(52*time.Millisecond)
	s.Objects, s.Ready, s.Updated, s.Unchanged = 126, 126, int32(1+i%4), 120
	s.Created, s.Deleted = int32(i%3), int32(i%5/4)
	s.Signature = &v1alpha1.CommitSignature{State: "Verified", Key: "SHA256:uB9vFv3mW2zq", Signer: "ada@example.com"}
	s.Phase, s.Reason, s.Message = v1alpha1.CommitHealthy, "Healthy", "all 126 objects are healthy"
	s.HealthyTime = micro(time.Duration(3+i%9) * 1700 * time.Millisecond)
	s.Changes = []v1alpha1.CommitChange{
		{Action: "update", Object: "Deployment/shop/checkout", File: "apps/checkout.yaml", Line: 73, Fields: []v1alpha1.FieldChange{
			{Path: `spec.template.spec.containers[name="app"].image`, Old: `"ghcr.io/example/checkout:v2.13.9"`, New: `"ghcr.io/example/checkout:v2.14.2"`}, {Path: "spec.replicas", Old: "2", New: "3"},
			{Path: `spec.template.spec.containers[name="app"].env[name="PAYMENT_API"].value`, New: `"https://payments.example.com/v3"`}}},
		{Action: "update", Object: "ConfigMap/shop/checkout-config", File: "apps/checkout.yaml", Line: 25, Fields: []v1alpha1.FieldChange{{Path: "data.TIMEOUT", Old: `"30s"`, New: `"5s"`}}},
		{Action: "update", Object: "Secret/shop/payment-key", File: "apps/payment.yaml", Line: 97, Fields: []v1alpha1.FieldChange{{Path: "data.key", Old: "(hidden)", New: "(hidden)"}}},
		{Action: "create", Object: "NetworkPolicy/shop/checkout", File: "apps/checkout.yaml", Line: 97},
		{Action: "replace", Object: "Service/shop/checkout", File: "apps/checkout.yaml", Line: 49, Fields: []v1alpha1.FieldChange{{Path: "spec.clusterIP", Old: `"10.96.14.7"`, New: `"None"`}}},
		{Action: "delete", Object: "ConfigMap/shop/checkout-legacy", File: "apps/checkout.yaml", Line: 121},
	}
	s.Consequences = []v1alpha1.CommitConsequence{{Object: "Deployment/shop/checkout", Kind: "Restart", Message: "its 3 pods are replaced step by step"}, {Object: "Service/shop/checkout", Kind: "Replace", Message: "its address changes: clients that keep it lose their connections"}}
	switch {
	case i == 0:
		s.Phase, s.Reason, s.Message, s.HealthyTime, s.Ready = v1alpha1.CommitApplied, "Progressing", "3 objects not healthy yet", nil, 123
		s.Unhealthy = []v1alpha1.ObjectHealth{{Object: "Deployment/shop/checkout", Health: "Degraded", Message: "1 of 3 pods are available"}, {Object: "Deployment/shop/recommendation", Health: "Degraded", Message: "does not get on: ReplicaSet has timed out progressing."}, {Object: "Deployment/shop/ads", Health: "Progressing", Message: "1 of 2 pods are available"}}
	case i == 2 || i == 21:
		s.Phase, s.Reason, s.Message = v1alpha1.CommitFailed, "Refused", "4 findings; the cluster is as it was before"
		s.AppliedTime, s.HealthyTime, s.PlannedTime, s.FailedTime = nil, nil, nil, micro(38*time.Millisecond)
		s.Created, s.Updated, s.Deleted, s.Ready, s.Objects, s.Changes, s.Consequences = 0, 0, 0, 0, 0, nil, nil
		s.Signature = &v1alpha1.CommitSignature{State: "Unsigned", Message: "nobody has signed the commit"}
		s.Findings = []v1alpha1.Finding{
			{File: "apps/recommendation.yaml", Line: 12, Column: 3, Object: "Deployment/shop/recommendation", Field: "spec.replica", Rule: "UnknownField", Message: `there is no field "replica" in a Deployment's spec`, Hint: `did you mean "replicas"?`},
			{File: "apps/recommendation.yaml", Line: 31, Column: 18, Object: "Deployment/shop/recommendation", Field: "spec.template.spec.containers[0].image", Rule: "Policy", Message: `image "docker.io/evil/miner:latest" is not from an allowed registry`, Hint: "images come from ghcr.io/example; see policy/images.cue:4"},
			{File: "apps/recommendation.yaml", Line: 44, Column: 9, Field: "spec.ports[0].port", Rule: "OutOfRange", Message: "port 808080 is not in the range 1 to 65535"},
			{File: "apps/search.yaml", Line: 3, Column: 1, Rule: "Syntax", Message: "mapping values are not allowed here"}}
	case i == 6:
		s.Phase, s.Reason, s.Message, s.HealthyTime, s.FailedTime = v1alpha1.CommitFailed, "NotHealthyInTime", "2 objects not healthy after 10m0s", nil, micro(10*time.Minute)
		s.RolledBackTo, s.Ready = sha(8), 124
	case i == 9 || i == 15 || i == 28:
		s.Phase, s.Reason, s.Message, s.HealthyTime = v1alpha1.CommitSuperseded, "Superseded", "a newer commit took its place", nil
	case i == 1:
		s.Phase, s.Reason, s.Message = v1alpha1.CommitPending, "Evaluating", "the commit is read and checked"
		s.RenderedTime, s.PlannedTime, s.AppliedTime, s.HealthyTime, s.Created, s.Updated, s.Deleted, s.Changes = nil, nil, nil, nil, 0, 0, 0, nil
	}
}

func (f *fixture) makeRepositories() {
	ready := []metav1.Condition{{Type: "Ready", Status: "True", Reason: "UpToDate", Message: "the head is applied", LastTransitionTime: f.ago(time.Hour)}}
	f.Put(&v1alpha1.Repository{ObjectMeta: f.meta("", "shop", 90*24*time.Hour), Spec: v1alpha1.RepositorySpec{URL: "https://git.example.com/shop/cluster.git", Branch: "main", Path: ".", Interval: &metav1.Duration{Duration: 15 * time.Second},
		Webhook: &v1alpha1.RepositoryWebhook{Provider: "github", Secret: "x/y"}, Verification: &v1alpha1.RepositoryVerification{Mode: "Require"}, Rollback: &v1alpha1.RepositoryRollback{}},
		Status: v1alpha1.RepositoryStatus{Head: sha(2), Applied: sha(1), Healthy: sha(5), Failed: []string{sha(7)}, LastFetchTime: ptr(f.ago(6 * time.Second)), Conditions: ready,
			Drifted: []v1alpha1.ObjectHealth{{Object: "Deployment/shop/frontend", Health: "Healed", Message: "spec.replicas was changed to 9 by kubectl-scale and put back to 4, 12m ago"}}}})
	f.Put(&v1alpha1.Repository{ObjectMeta: f.meta("", "platform", 90*24*time.Hour), Spec: v1alpha1.RepositorySpec{URL: "builtin", Branch: "main"},
		Status: v1alpha1.RepositoryStatus{Head: sha(4), Applied: sha(4), Healthy: sha(4), LastFetchTime: ptr(f.ago(2 * time.Second)), Conditions: ready}})
	f.Put(&v1alpha1.Repository{ObjectMeta: f.meta("", "data", 90*24*time.Hour), Spec: v1alpha1.RepositorySpec{URL: "ssh://git@git.example.com/data/stateful.git", SemVer: "~4.1", Suspend: false},
		Status: v1alpha1.RepositoryStatus{Head: sha(6), Applied: sha(6), Healthy: sha(6), Tag: "v4.1.3", LastFetchTime: ptr(f.ago(41 * time.Second)), Conditions: ready}})
}

// allow lets everybody read everything.
func allow(context.Context, user.Info, string, *schema.Resource, string, string) bool { return true }

// as is a handler that is reached by a user.
func as(h http.Handler, u user.Info) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r.WithContext(request.WithUser(r.Context(), u)))
	})
}

var jane = &user.DefaultInfo{Name: "jane", Groups: []string{user.AllAuthenticated}}

// served is a page over a cluster, as HTTP and with its hub running.
func served(t *testing.T, cfg Config) *httptest.Server {
	t.Helper()
	if cfg.Authorize == nil {
		cfg.Authorize = allow
	}
	p := New(cfg)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	s := httptest.NewServer(as(p, jane))
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// clock is the time of the fixture.
func (f *fixture) clock() time.Time { return f.now }

// refresh stores the inventories again.
func (f *fixture) refresh() {
	for _, inv := range f.files {
		f.Put(inv)
	}
}
