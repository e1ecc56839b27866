package cluster

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/writ-os/writ/ci/freeport"
)

// encryptWith writes a configuration that encrypts Deployments by the first of
// some keys.
func encryptWith(t *testing.T, file string, keys ...string) {
	t.Helper()
	text := "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- resources: [deployments.apps]\n  providers:\n  - secretbox:\n      keys:\n"
	for _, k := range keys {
		text += fmt.Sprintf("      - {name: %s, secret: %s}\n", k, base64.StdEncoding.EncodeToString([]byte(strings.Repeat(k[1:2], 32))))
	}
	if err := os.WriteFile(file, []byte(text+"  - identity: {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A server that is started with another key than that of its Deployments keeps
// their pods, says what is missing, and goes on when the key is back.
func TestStartWithAnotherKey(t *testing.T) {
	file := filepath.Join(t.TempDir(), "encryption.yaml")
	encryptWith(t, file, "k1")
	cfg := Config{DataDir: filepath.Join(t.TempDir(), "data"), Listen: freeport.Local(t), NodeName: "n", Log: slog.New(slog.NewTextHandler(io.Discard, nil)), API: API{EncryptionFile: file}}
	_, dir, admin := prepared(t, "https://"+cfg.Listen)
	cfg.Authority = dir
	kube, err := kubernetes.NewForConfig(admin)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	until := func(what string, f func(context.Context) error) {
		t.Helper()
		var err error
		for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			if err = f(ctx); err == nil {
				return
			}
		}
		t.Fatalf("%s: %v", what, err)
	}
	pods := func(ctx context.Context) error {
		all, err := kube.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
		if err == nil && len(all.Items) != 2 {
			err = fmt.Errorf("%d pods", len(all.Items))
		}
		return err
	}
	running(t, cfg, func() {
		two := int32(2)
		labels := map[string]string{"app": "web"}
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: appsv1.DeploymentSpec{
			Replicas: &two, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "writ.dev/pause"}}}},
		}}
		if _, err := kube.AppsV1().Deployments("default").Create(ctx, d, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		until("two pods", pods)
	})
	encryptWith(t, file, "k2")
	running(t, cfg, func() {
		until("the API answers", pods)
		for what, err := range map[string]error{
			"get": func() error {
				_, err := kube.AppsV1().Deployments("default").Get(ctx, "web", metav1.GetOptions{})
				return err
			}(),
			"list":   func() error { _, err := kube.AppsV1().Deployments("").List(ctx, metav1.ListOptions{}); return err }(),
			"watch":  func() error { _, err := kube.AppsV1().Deployments("").Watch(ctx, metav1.ListOptions{}); return err }(),
			"delete": kube.AppsV1().Deployments("default").Delete(ctx, "web", metav1.DeleteOptions{}),
		} {
			if !apierrors.IsInternalError(err) || !strings.Contains(err.Error(), `key "k1" of secretbox`) {
				t.Errorf("%s: %v", what, err)
			}
		}
		body, err := kube.CoreV1().RESTClient().Get().AbsPath("/readyz").Param("verbose", "").DoRaw(ctx)
		if err == nil || !strings.Contains(string(body)+err.Error(), "stored-values") {
			t.Errorf("readyz: %s, %v", body, err)
		}
		time.Sleep(10 * time.Second) // it took 8 s for the pods to go
		if err := pods(ctx); err != nil {
			t.Errorf("without the key of the Deployment there are %v", err)
		}
		// What --encryption-provider-config names is read again by itself.
		encryptWith(t, file, "k2", "k1")
		until("the Deployment is back", func(ctx context.Context) error {
			_, err := kube.AppsV1().Deployments("default").Get(ctx, "web", metav1.GetOptions{})
			return err
		})
		until("ready", func(ctx context.Context) error {
			_, err := kube.CoreV1().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
			return err
		})
		if err := pods(ctx); err != nil {
			t.Error(err)
		}
		// And it leads: the controllers do what the Deployment asks for.
		until("scaled", func(ctx context.Context) error {
			d, err := kube.AppsV1().Deployments("default").Get(ctx, "web", metav1.GetOptions{})
			if err != nil {
				return err
			}
			if *d.Spec.Replicas != 0 {
				*d.Spec.Replicas = 0
				if _, err := kube.AppsV1().Deployments("default").Update(ctx, d, metav1.UpdateOptions{}); err != nil {
					return err
				}
			}
			all, err := kube.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
			if err == nil && len(all.Items) != 0 {
				err = fmt.Errorf("%d pods", len(all.Items))
			}
			return err
		})
	})
	// The way out where the key is gone for good: it must be said in so many words.
	encryptWith(t, file, "k3")
	running(t, cfg, func() {
		sure := true
		until("deleted unread", func(ctx context.Context) error {
			return kube.AppsV1().Deployments("default").Delete(ctx, "web", metav1.DeleteOptions{IgnoreStoreReadErrorWithClusterBreakingPotential: &sure})
		})
		until("ready again", func(ctx context.Context) error {
			_, err := kube.CoreV1().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
			return err
		})
	})
}
