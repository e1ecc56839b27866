package cluster

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/writ-os/writ/ci/freeport"
	"github.com/writ-os/writ/cmd/writ/member"
)

// TestBackup: what was saved while the cluster ran is there after a restore, what
// came later is not, and the store of before is kept; nobody but an administrator
// gets a backup.
func TestBackup(t *testing.T) {
	cfg := Config{DataDir: filepath.Join(t.TempDir(), "data"), Listen: freeport.Local(t), NodeName: "n", Still: true, Log: slog.New(slog.DiscardHandler)}
	file := filepath.Join(t.TempDir(), "saved.db")
	running(t, cfg, func() {
		put(t, cfg, "before")
		n, err := asker(t, cfg, "admin.kubeconfig").Save(t.Context(), file)
		if err != nil {
			t.Fatal(err)
		}
		if at, err := os.Stat(file); err != nil || at.Size() != n || at.Mode().Perm() != 0o600 {
			t.Errorf("saved %v, %v; want %d bytes for the owner alone", at, err, n)
		}
		if _, err := asker(t, cfg, "viewer.kubeconfig").Backup(t.Context(), &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "may not get") {
			t.Errorf("a viewer gets a backup: %v", err)
		}
		put(t, cfg, "after")
	})
	saved, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer saved.Close()
	before, err := member.Restore(cfg.DataDir, saved, time.Now(), cfg.Log)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(before, "member", "snap", "db")); err != nil {
		t.Errorf("the store of before: %v", err)
	}
	running(t, cfg, func() {
		if err := look(t, cfg, "before"); err != nil {
			t.Errorf("what was saved: %v", err)
		}
		if err := look(t, cfg, "after"); !apierrors.IsNotFound(err) {
			t.Errorf("what came after the backup: %v", err)
		}
		put(t, cfg, "again")
	})

	// One that is not whole changes nothing.
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text[len(text)/2]++
	if _, err := member.Restore(cfg.DataDir, bytes.NewReader(text), time.Now().Add(time.Hour), cfg.Log); err == nil {
		t.Error("a backup with another byte was taken")
	}
	running(t, cfg, func() {
		if err := look(t, cfg, "again"); err != nil {
			t.Errorf("after a restore that was refused: %v", err)
		}
	})
}

func credential(t *testing.T, cfg Config, name string) *rest.Config {
	t.Helper()
	c, err := clientcmd.BuildConfigFromFlags("", cfg.file(name))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func asker(t *testing.T, cfg Config, name string) member.Client {
	t.Helper()
	c := credential(t, cfg, name)
	h, err := rest.HTTPClientFor(c)
	if err != nil {
		t.Fatal(err)
	}
	return member.Client{HTTP: h, Server: c.Host}
}

func configMaps(t *testing.T, cfg Config) corev1client.ConfigMapInterface {
	t.Helper()
	c, err := kubernetes.NewForConfig(credential(t, cfg, "admin.kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	return c.CoreV1().ConfigMaps("default")
}

func put(t *testing.T, cfg Config, name string) {
	t.Helper()
	if _, err := configMaps(t, cfg).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func look(t *testing.T, cfg Config, name string) error {
	t.Helper()
	_, err := configMaps(t, cfg).Get(t.Context(), name, metav1.GetOptions{})
	return err
}
