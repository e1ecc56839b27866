package charts

import (
	"context"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/kube"
	release "helm.sh/helm/v4/pkg/release/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
)

var (
	lampResource = schema.GroupVersionResource{Group: "charts.example.com", Version: "v1", Resource: "lamps"}
	crdResource  = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
)

// helm is Helm against one server, and clients to look at what it does.
type helm struct {
	t       *testing.T
	cfg     *action.Configuration
	c       kubernetes.Interface
	d       dynamic.Interface
	release string
}

// TestHelm walks a chart with a definition, an object of it, a Deployment and a
// hook through its life, as server-side apply (Helm 4's own way) and as
// client-side patches (that of releases of Helm 3).
func TestHelm(t *testing.T) {
	kubeconfig := server(t)
	for _, tt := range []struct {
		release    string
		serverSide bool
	}{{"one", true}, {"two", false}} {
		t.Run(tt.release, func(t *testing.T) {
			h := newHelm(t, kubeconfig, tt.release)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() { defer close(done); h.finishJobs(ctx) }()
			h.install(tt.serverSide)
			h.upgrade()
			if tt.serverSide {
				h.conflict()
			}
			h.rollback()
			h.uninstall()
			cancel()
			<-done
		})
	}
}

func newHelm(t *testing.T, kubeconfig, name string) *helm {
	flags := genericclioptions.NewConfigFlags(false)
	namespace := "default"
	flags.KubeConfig, flags.Namespace = &kubeconfig, &namespace
	cfg := action.NewConfiguration()
	if err := cfg.Init(flags, namespace, "secret"); err != nil {
		t.Fatal(err)
	}
	rest, err := flags.ToRESTConfig()
	if err != nil {
		t.Fatal(err)
	}
	return &helm{t: t, cfg: cfg, c: kubernetes.NewForConfigOrDie(rest), d: dynamic.NewForConfigOrDie(rest), release: name}
}

// finishJobs ends every Job well: no node is there to run it.
func (h *helm) finishJobs(ctx context.Context) {
	jobs := h.c.BatchV1().Jobs("default")
	w, err := jobs.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		h.t.Error(err)
		return
	}
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case e, open := <-w.ResultChan():
			if !open {
				return
			}
			if j, ok := e.Object.(*batchv1.Job); ok && e.Type == "ADDED" && j.Status.Succeeded == 0 {
				h.finish(ctx, j)
			}
		}
	}
}

func (h *helm) finish(ctx context.Context, j *batchv1.Job) {
	now := metav1.Now()
	condition := func(t batchv1.JobConditionType) batchv1.JobCondition {
		return batchv1.JobCondition{Type: t, Status: corev1.ConditionTrue, LastProbeTime: now, LastTransitionTime: now}
	}
	j.Status = batchv1.JobStatus{StartTime: &now, CompletionTime: &now, Succeeded: 1, UncountedTerminatedPods: &batchv1.UncountedTerminatedPods{},
		Conditions: []batchv1.JobCondition{condition(batchv1.JobSuccessCriteriaMet), condition(batchv1.JobComplete)}}
	if _, err := h.c.BatchV1().Jobs("default").UpdateStatus(ctx, j, metav1.UpdateOptions{}); err != nil && ctx.Err() == nil {
		h.t.Errorf("finish job %s: %v", j.Name, err)
	}
}

func (h *helm) install(serverSide bool) {
	h.t.Helper()
	ch, err := loader.Load("testdata/chart")
	if err != nil {
		h.t.Fatal(err)
	}
	i := action.NewInstall(h.cfg)
	i.ReleaseName, i.Namespace, i.Timeout, i.WaitStrategy, i.ServerSideApply = h.release, "default", time.Minute, kube.HookOnlyStrategy, serverSide
	got, err := i.Run(ch, nil)
	if err != nil {
		h.t.Fatalf("helm install: %v", err)
	}
	if r := got.(*release.Release); r.Version != 1 || r.Info.Status != "deployed" {
		h.t.Errorf("helm install: revision %d is %s", r.Version, r.Info.Status)
	}
	h.holds(1, "example.com/lamps:v1", false)
	job, err := h.c.BatchV1().Jobs("default").Get(h.t.Context(), h.release+"-migrate", metav1.GetOptions{})
	if err != nil || job.Status.Succeeded != 1 {
		h.t.Errorf("the hook: %v, %v", job, err)
	}
	if _, err := i.Run(ch, nil); err == nil || !strings.Contains(err.Error(), "cannot reuse a name that is still in use") {
		h.t.Errorf("helm install of a name in use: %v", err)
	}
}

// run upgrades to values.
func (h *helm) run(force bool, values map[string]any) error {
	h.t.Helper()
	ch, err := loader.Load("testdata/chart")
	if err != nil {
		h.t.Fatal(err)
	}
	u := action.NewUpgrade(h.cfg)
	u.Namespace, u.Timeout, u.WaitStrategy, u.ForceConflicts = "default", time.Minute, kube.HookOnlyStrategy, force
	_, err = u.Run(h.release, ch, values)
	return err
}

func (h *helm) upgrade() {
	h.t.Helper()
	if err := h.run(false, map[string]any{"replicas": 3, "image": "example.com/lamps:v2"}); err != nil {
		h.t.Fatalf("helm upgrade: %v", err)
	}
	h.holds(3, "example.com/lamps:v2", true)
}

// conflict: what another manager has taken, Helm takes back only by force.
func (h *helm) conflict() {
	h.t.Helper()
	_, err := h.c.AppsV1().Deployments("default").Patch(h.t.Context(), h.release, types.MergePatchType, []byte(`{"spec":{"replicas":9}}`), metav1.PatchOptions{FieldManager: "somebody"})
	if err != nil {
		h.t.Fatal(err)
	}
	values := map[string]any{"replicas": 4, "image": "example.com/lamps:v2"}
	if err := h.run(false, values); err == nil || !strings.Contains(err.Error(), `conflict with "somebody"`) {
		h.t.Errorf("helm upgrade over another's field: %v", err)
	}
	if err := h.run(true, values); err != nil {
		h.t.Fatalf("helm upgrade --force-conflicts: %v", err)
	}
	h.holds(4, "example.com/lamps:v2", true)
}

func (h *helm) rollback() {
	h.t.Helper()
	r := action.NewRollback(h.cfg)
	r.Version, r.Timeout, r.WaitStrategy = 1, time.Minute, kube.HookOnlyStrategy
	if err := r.Run(h.release); err != nil {
		h.t.Fatalf("helm rollback: %v", err)
	}
	h.holds(1, "example.com/lamps:v1", false)
}

func (h *helm) uninstall() {
	h.t.Helper()
	u := action.NewUninstall(h.cfg)
	u.Timeout, u.WaitStrategy = time.Minute, kube.StatusWatcherStrategy // waits until all is gone
	if _, err := u.Run(h.release); err != nil {
		h.t.Fatalf("helm uninstall: %v", err)
	}
	ctx := h.t.Context()
	if _, err := h.c.AppsV1().Deployments("default").Get(ctx, h.release, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		h.t.Errorf("the Deployment after helm uninstall: %v", err)
	}
	if _, err := h.d.Resource(lampResource).Namespace("default").Get(ctx, h.release, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		h.t.Errorf("the Lamp after helm uninstall: %v", err)
	}
	if _, err := h.d.Resource(crdResource).Get(ctx, "lamps.charts.example.com", metav1.GetOptions{}); err != nil {
		h.t.Errorf("the definition stays: %v", err)
	}
	left, err := h.c.CoreV1().Secrets("default").List(ctx, metav1.ListOptions{LabelSelector: "owner=helm,name=" + h.release})
	if err != nil || len(left.Items) != 0 {
		h.t.Errorf("%d records of the release are left: %v", len(left.Items), err)
	}
}

// holds looks at what a revision should have made, by other clients.
func (h *helm) holds(replicas int32, image string, service bool) {
	h.t.Helper()
	ctx := h.t.Context()
	d, err := h.c.AppsV1().Deployments("default").Get(ctx, h.release, metav1.GetOptions{})
	if err != nil {
		h.t.Fatal(err)
	}
	if *d.Spec.Replicas != replicas || d.Spec.Template.Spec.Containers[0].Image != image {
		h.t.Errorf("%d replicas of %s, want %d of %s", *d.Spec.Replicas, d.Spec.Template.Spec.Containers[0].Image, replicas, image)
	}
	if d.Labels["app.kubernetes.io/managed-by"] != "Helm" || d.Annotations["meta.helm.sh/release-name"] != h.release {
		h.t.Errorf("labels %v, annotations %v", d.Labels, d.Annotations)
	}
	lamp, err := h.d.Resource(lampResource).Namespace("default").Get(ctx, h.release, metav1.GetOptions{})
	if err != nil {
		h.t.Fatal(err)
	}
	if lit := lamp.Object["spec"].(map[string]any)["lit"]; lit != service {
		h.t.Errorf("the lamp is lit: %v, want %v", lit, service)
	}
	_, err = h.c.CoreV1().Services("default").Get(ctx, h.release, metav1.GetOptions{})
	if service != (err == nil) || err != nil && !apierrors.IsNotFound(err) {
		h.t.Errorf("the Service: %v, want one: %v", err, service)
	}
}
