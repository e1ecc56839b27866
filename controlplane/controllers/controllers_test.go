package controllers_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func template(app, image string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: image}}, RestartPolicy: corev1.RestartPolicyAlways},
	}
}

func once(app string) corev1.PodTemplateSpec {
	t := template(app, "x")
	t.Spec.RestartPolicy = corev1.RestartPolicyNever
	return t
}

func web(replicas int32) *appsv1.Deployment {
	surge, unavailable, deadline, history := intstr.FromInt32(1), intstr.FromInt32(0), int32(600), int32(2)
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, Template: template("web", "demo:v1"),
			Strategy:                appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType, RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &surge, MaxUnavailable: &unavailable}},
			ProgressDeadlineSeconds: &deadline, RevisionHistoryLimit: &history,
		},
	}
}

func complete(c *cluster, name string) func() bool {
	return func() bool {
		d := get[*appsv1.Deployment](c, "default", name)
		s := d.Status
		return s.ObservedGeneration == d.Generation && s.UpdatedReplicas == *d.Spec.Replicas && s.AvailableReplicas == *d.Spec.Replicas && s.Replicas == *d.Spec.Replicas
	}
}

// The way of a Deployment: created, served, rolled, turned back, scaled,
// deleted with all that it owns.
func TestDeploymentLives(t *testing.T) {
	over(t, 3, func(t *testing.T, c *cluster) {
		c.create(&corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
			Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": "web"}, ClusterIP: "10.96.0.7", Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080), Protocol: "TCP"}}},
		})
		c.create(web(3))
		c.eventually("complete", 10*time.Second, complete(c, "web"))
		c.eventually("three endpoints", 5*time.Second, func() bool { return readyEndpoints(c) == 3 })
		d := get[*appsv1.Deployment](c, "default", "web")
		if d.Annotations["deployment.kubernetes.io/revision"] != "1" {
			t.Errorf("revision annotation: %v", d.Annotations)
		}

		// Rolled: at no time fewer than three ready endpoints, nor more than four pods.
		stop := make(chan struct{})
		checked := make(chan struct{})
		go func() {
			defer close(checked)
			for {
				select {
				case <-stop:
					return
				case <-time.After(20 * time.Millisecond):
				}
				if n := readyPods(c); n < 3 {
					t.Errorf("only %d pods ready during the rollout", n)
				}
			}
		}()
		update(c, "default", "web", func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "demo:v2" })
		c.eventually("rolled", 60*time.Second, complete(c, "web"))
		close(stop)
		<-checked
		if n := len(list[*appsv1.ReplicaSet](c, "default")); n != 2 {
			t.Errorf("%d replica sets after one rollout", n)
		}

		// Turned back: the old ReplicaSet is current again, as revision 3.
		update(c, "default", "web", func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "demo:v1" })
		c.eventually("turned back", 60*time.Second, complete(c, "web"))
		if n := len(list[*appsv1.ReplicaSet](c, "default")); n != 2 {
			t.Errorf("%d replica sets after turning back", n)
		}
		c.eventually("revision 3", time.Second, func() bool {
			return get[*appsv1.Deployment](c, "default", "web").Annotations["deployment.kubernetes.io/revision"] == "3"
		})

		five := int32(5)
		update(c, "default", "web", func(d *appsv1.Deployment) { d.Spec.Replicas = &five })
		c.eventually("scaled", 20*time.Second, complete(c, "web"))

		if err := client.Delete[*appsv1.Deployment](t.Context(), c.Backend, schema.Key{Namespace: "default", Name: "web"}, client.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		c.eventually("all gone", 20*time.Second, func() bool {
			return len(list[*appsv1.ReplicaSet](c, "default")) == 0 && len(list[*corev1.Pod](c, "default")) == 0
		})
	})
}

func readyPods(c *cluster) int {
	n := 0
	for _, p := range list[*corev1.Pod](c, "default") {
		for _, cond := range p.Status.Conditions {
			if cond.Type == corev1.PodReady && cond.Status == corev1.ConditionTrue && p.DeletionTimestamp == nil {
				n++
			}
		}
	}
	return n
}

func readyEndpoints(c *cluster) int {
	n := 0
	for _, s := range list[*discoveryv1.EndpointSlice](c, "default") {
		for _, e := range s.Endpoints {
			if *e.Conditions.Ready {
				n++
			}
		}
	}
	return n
}

func TestRecreateWaitsForTheOldPods(t *testing.T) {
	over(t, 2, func(t *testing.T, c *cluster) {
		d := web(3)
		d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
		c.create(d)
		c.eventually("complete", 10*time.Second, complete(c, "web"))
		ctx := t.Context()
		var both atomic.Bool
		if err := c.Cache().Subscribe(ctx, schema.ResourceFor[*corev1.Pod](), func(client.Event) {
			images := map[string]bool{}
			for _, p := range list[*corev1.Pod](c, "default") {
				images[p.Spec.Containers[0].Image] = true
			}
			if len(images) > 1 {
				both.Store(true)
			}
		}); err != nil {
			t.Fatal(err)
		}
		update(c, "default", "web", func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "demo:v2" })
		c.eventually("rolled", 30*time.Second, complete(c, "web"))
		if both.Load() {
			t.Error("pods of both versions existed at one time")
		}
	})
}

func TestJobs(t *testing.T) {
	one, six, four, ttl := int32(1), int32(6), int32(4), int32(3)
	mode := batchv1.IndexedCompletion
	over(t, 2, func(t *testing.T, c *cluster) {
		c.exits = func(p *corev1.Pod) (corev1.PodPhase, bool) {
			if p.Labels["app"] == "bad" {
				return corev1.PodFailed, true
			}
			return corev1.PodSucceeded, true
		}
		c.create(&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "good"}, Spec: batchv1.JobSpec{
			Completions: &six, Parallelism: &four, BackoffLimit: &six, Template: once("good"), TTLSecondsAfterFinished: &ttl}})
		c.create(&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "numbered"}, Spec: batchv1.JobSpec{
			Completions: &six, Parallelism: &four, CompletionMode: &mode, Template: once("numbered")}})
		c.create(&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "bad"}, Spec: batchv1.JobSpec{
			Completions: &one, Parallelism: &one, BackoffLimit: &one, Template: once("bad")}})

		c.eventually("good complete", 30*time.Second, func() bool { return has(get[*batchv1.Job](c, "default", "good"), batchv1.JobComplete) })
		if s := get[*batchv1.Job](c, "default", "good").Status; s.Succeeded != 6 || s.Failed != 0 || s.CompletionTime == nil || s.Active != 0 {
			t.Errorf("good: %+v", s)
		}
		c.eventually("numbered complete", 30*time.Second, func() bool { return has(get[*batchv1.Job](c, "default", "numbered"), batchv1.JobComplete) })
		if s := get[*batchv1.Job](c, "default", "numbered").Status; s.CompletedIndexes != "0-5" || s.Succeeded != 6 {
			t.Errorf("numbered: %+v", s)
		}
		c.eventually("bad failed", 5*time.Minute, func() bool { return has(get[*batchv1.Job](c, "default", "bad"), batchv1.JobFailed) })
		bad := get[*batchv1.Job](c, "default", "bad")
		if bad.Status.Failed != 2 {
			t.Errorf("bad: %+v", bad.Status)
		}
		for _, cond := range bad.Status.Conditions {
			if cond.Reason != batchv1.JobReasonBackoffLimitExceeded {
				t.Errorf("bad: condition %+v", cond)
			}
		}
		c.eventually("good gone by its TTL", time.Minute, func() bool {
			for _, j := range list[*batchv1.Job](c, "default") {
				if j.Name == "good" {
					return false
				}
			}
			for _, p := range list[*corev1.Pod](c, "default") {
				if p.Labels["app"] == "good" {
					return false
				}
			}
			return true
		})
	})
}

func has(j *batchv1.Job, typ batchv1.JobConditionType) bool {
	for _, c := range j.Status.Conditions {
		if c.Type == typ && c.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}

func TestDaemonSetRollsNodeByNode(t *testing.T) {
	over(t, 4, func(t *testing.T, c *cluster) {
		c.create(&appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "agent"}, Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "agent"}}, Template: template("agent", "v1"),
			UpdateStrategy: appsv1.DaemonSetUpdateStrategy{Type: appsv1.RollingUpdateDaemonSetStrategyType}}})
		available := func(n int32) func() bool {
			return func() bool {
				ds := get[*appsv1.DaemonSet](c, "default", "agent")
				return ds.Status.ObservedGeneration == ds.Generation && ds.Status.NumberAvailable == n && ds.Status.UpdatedNumberScheduled == n && ds.Status.DesiredNumberScheduled == n
			}
		}
		c.eventually("four", 10*time.Second, available(4))
		var few atomic.Bool
		if err := c.Cache().Subscribe(t.Context(), schema.ResourceFor[*corev1.Pod](), func(client.Event) {
			if readyPods(c) < 3 {
				few.Store(true)
			}
		}); err != nil {
			t.Fatal(err)
		}
		update(c, "default", "agent", func(ds *appsv1.DaemonSet) { ds.Spec.Template.Spec.Containers[0].Image = "v2" })
		c.eventually("rolled", 60*time.Second, available(4))
		if few.Load() {
			t.Error("fewer than three pods ready during the rollout")
		}
		c.join(4)
		c.eventually("five", 10*time.Second, available(5))
	})
}

// claim is a volume claim as a person would declare it.
func claim(name string) corev1.PersistentVolumeClaim {
	c := corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}}
	c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	return c
}

func TestStatefulSetInOrder(t *testing.T) {
	three := int32(3)
	over(t, 2, func(t *testing.T, c *cluster) {
		var mu sync.Mutex
		var order []string
		if err := c.Cache().Subscribe(t.Context(), schema.ResourceFor[*corev1.Pod](), func(ev client.Event) {
			mu.Lock()
			defer mu.Unlock()
			if ev.Type == client.Added {
				order = append(order, ev.Object.GetName())
			}
		}); err != nil {
			t.Fatal(err)
		}
		c.create(&appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "db"}, Spec: appsv1.StatefulSetSpec{
			Replicas: &three, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}, Template: template("db", "v1"), ServiceName: "db",
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{claim("data")}}})
		ready := func() bool {
			s := get[*appsv1.StatefulSet](c, "default", "db")
			return s.Status.ObservedGeneration == s.Generation && s.Status.AvailableReplicas == *s.Spec.Replicas && s.Status.Replicas == *s.Spec.Replicas && s.Status.UpdatedReplicas == *s.Spec.Replicas && s.Status.CurrentRevision == s.Status.UpdateRevision
		}
		c.eventually("three", 20*time.Second, ready)
		if n := len(list[*corev1.PersistentVolumeClaim](c, "default")); n != 3 {
			t.Errorf("%d claims", n)
		}
		update(c, "default", "db", func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.Containers[0].Image = "v2" })
		c.eventually("rolled", 60*time.Second, ready)
		mu.Lock()
		defer mu.Unlock()
		want := []string{"db-0", "db-1", "db-2", "db-2", "db-1", "db-0"}
		if len(order) != len(want) {
			t.Fatalf("pods created: %v", order)
		}
		for i := range want {
			if order[i] != want[i] {
				t.Fatalf("pods created: %v, want %v", order, want)
			}
		}
	})
}

func TestNamespaceIsEmptied(t *testing.T) {
	over(t, 2, func(t *testing.T, c *cluster) {
		c.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
		c.eventually("account and CA", 5*time.Second, func() bool {
			return len(list[*corev1.ServiceAccount](c, "shop")) == 1 && len(list[*corev1.ConfigMap](c, "shop")) == 1
		})
		d := web(3)
		d.Namespace = "shop"
		c.create(d)
		c.eventually("pods", 10*time.Second, func() bool { return len(list[*corev1.Pod](c, "shop")) == 3 })
		if err := client.Delete[*corev1.Namespace](t.Context(), c.Backend, schema.Key{Name: "shop"}, client.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		c.eventually("namespace gone", time.Minute, func() bool {
			_, err := c.Get(t.Context(), schema.ResourceFor[*corev1.Namespace](), schema.Key{Name: "shop"})
			return err != nil && len(list[*corev1.Pod](c, "shop")) == 0
		})
	})
}

// A cluster in which nothing happens is quiet: nobody writes.
func TestQuiet(t *testing.T) {
	two, never := int32(2), true
	half := intstr.FromString("50%")
	over(t, 2, func(t *testing.T, c *cluster) {
		c.create(web(3))
		c.create(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080), Protocol: "TCP"}}}})
		c.create(&policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: &half, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}})
		c.create(&appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "agent"}, Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "agent"}}, Template: template("agent", "v1")}})
		c.create(&appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "db"}, Spec: appsv1.StatefulSetSpec{
			Replicas: &two, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}, Template: template("db", "v1"), ServiceName: "db"}})
		c.create(&batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "later"}, Spec: batchv1.CronJobSpec{
			Schedule: "0 0 1 1 *", Suspend: &never, JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: once("later")}}}})
		c.eventually("complete", 20*time.Second, complete(c, "web"))
		c.eventually("seven pods ready", 20*time.Second, func() bool { return readyPods(c) == 7 })
		c.eventually("budget", 5*time.Second, func() bool {
			return get[*policyv1.PodDisruptionBudget](c, "default", "web").Status.DisruptionsAllowed == 2
		})
		rest := time.Second
		if c.bubble {
			time.Sleep(time.Minute)
			rest = time.Hour
		} else {
			time.Sleep(300 * time.Millisecond)
		}
		var mu sync.Mutex
		writes := map[string]int{}
		for _, r := range schema.Resources {
			if r.Kind == "Node" { // the node agent of this test writes
				continue
			}
			began := false
			if err := c.Cache().Subscribe(t.Context(), r, func(ev client.Event) {
				mu.Lock()
				defer mu.Unlock()
				if began {
					writes[fmt.Sprintf("%s %s %s", ev.Type, r, ev.Object.GetName())]++
				}
			}); err != nil {
				t.Fatal(err)
			}
			mu.Lock()
			began = true
			mu.Unlock()
		}
		time.Sleep(rest)
		mu.Lock()
		defer mu.Unlock()
		if len(writes) > 0 {
			t.Errorf("writes in a quiet cluster: %v", writes)
		}
	})
}
