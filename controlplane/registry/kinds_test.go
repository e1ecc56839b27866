package registry

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/kind/batch"
)

// TestHealthPort: a load balancer that asks for local traffic gets a port for
// its health check, which goes with the reason for it.
func TestHealthPort(t *testing.T) {
	g, _ := open(t, t.TempDir())
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "lb"},
		Spec:       corev1.ServiceSpec{Type: "LoadBalancer", ExternalTrafficPolicy: "Local", Ports: []corev1.ServicePort{{Port: 80}}},
	}
	created, err := client.Create(person, g, svc, client.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	health := created.Spec.HealthCheckNodePort
	if health < 30000 || health > 32767 || health == created.Spec.Ports[0].NodePort {
		t.Errorf("the health check has port %d, the Service %d", health, created.Spec.Ports[0].NodePort)
	}
	other := svc.DeepCopy()
	other.Name, other.Spec.HealthCheckNodePort = "other", health
	if _, err := client.Create(person, g, other, client.WriteOptions{}); err == nil {
		t.Error("a port is given out twice")
	}
	patched, err := g.Patch(person, services, key("lb"), types.MergePatchType, []byte(`{"spec":{"type":"ClusterIP","ports":[{"port":80}]}}`), client.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if s := patched.(*corev1.Service).Spec; s.HealthCheckNodePort != 0 || s.ExternalTrafficPolicy != "" || s.ClusterIP != created.Spec.ClusterIP {
		t.Errorf("as a ClusterIP it has %+v", s)
	}
	if _, err := client.Create(person, g, other, client.WriteOptions{}); err != nil {
		t.Errorf("the port is not free again: %v", err)
	}
}

// TestSpares: which budgets let a pod that is not ready go (KEP-3017).
func TestSpares(t *testing.T) {
	always, healthy := policyv1.AlwaysAllow, policyv1.IfHealthyBudget
	for _, c := range []struct {
		name             string
		policy           *policyv1.UnhealthyPodEvictionPolicyType
		current, desired int32
		ready, want      bool
	}{
		{"a ready pod", &always, 3, 1, true, false},
		{"always", &always, 0, 3, false, true},
		{"a healthy budget", &healthy, 3, 3, false, true},
		{"a budget in need", &healthy, 2, 3, false, false},
		{"no policy", nil, 3, 3, false, true},
		{"nothing desired", nil, 0, 0, false, false},
	} {
		pod := &corev1.Pod{}
		if c.ready {
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		}
		b := &policyv1.PodDisruptionBudget{}
		b.Spec.UnhealthyPodEvictionPolicy, b.Status.CurrentHealthy, b.Status.DesiredHealthy = c.policy, c.current, c.desired
		if got := spares(b, pod); got != c.want {
			t.Errorf("%s: spared: %v", c.name, got)
		}
	}
}

// TestFieldsOfWhatIsKept: owners own what is stored, not what was sent.
func TestFieldsOfWhatIsKept(t *testing.T) {
	g, _ := open(t, t.TempDir())
	s, err := client.Create(person, g, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "s"}, StringData: map[string]string{"a": "b"},
	}, client.WriteOptions{FieldManager: "m"})
	if err != nil {
		t.Fatal(err)
	}
	if got := owners(s); got != `m Update v1/ {"f:data":{".":{},"f:a":{}},"f:type":{}}` {
		t.Errorf("owners: %s", got)
	}
}

// TestLastState: an update that lets a deleted object go answers with the new
// state, as upstream does.
func TestLastState(t *testing.T) {
	g, _ := open(t, t.TempDir())
	c := configMap("f", "v")
	c.Finalizers = []string{"example.com/a"}
	if _, err := client.Create(person, g, c, client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := g.Delete(person, configMaps, key("f"), client.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	o, err := g.Patch(person, configMaps, key("f"), types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), client.WriteOptions{})
	if err != nil || len(o.GetFinalizers()) > 0 || g.store.Get(configMaps, key("f")) != nil {
		t.Errorf("finalizers %v, %v", o.GetFinalizers(), err)
	}
	if o.GetResourceVersion() != g.store.Version().String() {
		t.Errorf("it went at %s, not at %v", o.GetResourceVersion(), g.store.Version())
	}
}

// TestScaleApply: server-side apply works on the scale, with the owners of the
// field that is behind it.
func TestScaleApply(t *testing.T) {
	g, _ := open(t, t.TempDir())
	d := deployment("web")
	deployments := schema.ResourceOf(d)
	if _, err := g.Create(person, deployments, d, client.WriteOptions{FieldManager: "m"}); err != nil {
		t.Fatal(err)
	}
	apply := []byte(`{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"web"},"spec":{"replicas":3}}`)
	opt := client.WriteOptions{FieldManager: "hpa", Subresource: "scale"}
	if _, err := g.Patch(person, deployments, key("web"), types.ApplyPatchType, apply, opt); err == nil {
		t.Error("replicas were taken over without force")
	}
	opt.Force = true
	if _, err := g.Patch(person, deployments, key("web"), types.ApplyPatchType, apply, opt); err != nil {
		t.Fatal(err)
	}
	o, _ := g.Get(person, deployments, key("web"))
	if e := o.GetManagedFields()[0]; e.Manager != "hpa" || e.Operation != "Apply" || e.Subresource != "scale" || e.APIVersion != "apps/v1" ||
		string(e.FieldsV1.GetRawBytes()) != `{"f:spec":{"f:replicas":{}}}` {
		t.Errorf("owners\n%s", owners(o))
	}
	if n := o.GetGeneration(); n != 2 {
		t.Errorf("generation %d", n)
	}
}

func TestJobLabels(t *testing.T) {
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "j", UID: "u"}}
	batch.SelectJob(job)
	if job.Labels["job-name"] != "j" || job.Labels[batchv1.ControllerUidLabel] != "u" {
		t.Errorf("labels %v", job.Labels)
	}
}
