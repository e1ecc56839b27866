package cluster

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/writ-os/writ/ci/freeport"
	"github.com/writ-os/writ/cmd/writ/member"
	"github.com/writ-os/writ/controlplane/auth/pki"
)

const hidden = "this-is-not-to-be-found-on-the-disk"

// began starts a control plane until the test ends or stop is called.
func began(t *testing.T, cfg Config) (p *ControlPlane, stop func()) {
	t.Helper()
	p = NewControlPlane(cfg)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	select {
	case <-p.Ready():
	case err := <-done:
		done <- nil
		t.Fatal(err)
	}
	return p, stop
}

// backupHas says whether a backup of the store has the hidden text as a value that
// is live.
func backupHas(t *testing.T, p *ControlPlane, text string) bool {
	t.Helper()
	var b bytes.Buffer
	if _, err := p.store.Backup(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	return bytes.Contains(b.Bytes(), []byte(text))
}

// A cluster that begins makes a key of its own: a Secret is not on the disk in
// plain, nor in a backup, nor is the key; servers that join are given it. With
// none it is stored in plain again.
func TestSecretsAreEncrypted(t *testing.T) {
	cfg := Config{DataDir: filepath.Join(t.TempDir(), "data"), Listen: freeport.Local(t), NodeName: "n", Log: slog.New(slog.NewTextHandler(io.Discard, nil))}
	_, dir, admin := prepared(t, "https://"+cfg.Listen)
	cfg.Authority = dir
	kube, err := kubernetes.NewForConfig(admin)
	if err != nil {
		t.Fatal(err)
	}
	p, stop := began(t, cfg)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}, StringData: map[string]string{"k": hidden}}
	if _, err := kube.CoreV1().Secrets("default").Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(cfg.DataDir, ownKey)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(file); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", st.Mode(), err)
	}
	has, err := keysIn(text)
	if err != nil || !has.Writes {
		t.Fatal(has, err)
	}
	key := has.Key
	if backupHas(t, p, hidden) || backupHas(t, p, key) || !backupHas(t, p, "k8s:enc:secretbox:v1:own:") {
		t.Error("the backup holds a Secret in plain, or the key")
	}
	if _, err := pki.OpenPeers(pki.Config{Dir: p.cfg.file("pki")}); err != nil {
		t.Fatal(err)
	}
	shared, err := p.shared()
	if err != nil || !bytes.Equal(shared.Files[sharedEncryption], text) {
		t.Errorf("one that joins is given %q, %v", shared.Files[sharedEncryption], err)
	}
	stop()
	if err := filepath.WalkDir(filepath.Join(cfg.DataDir, "store"), func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		if bytes.Contains(b, []byte(hidden)) {
			t.Errorf("%s holds the Secret in plain", path)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	reads := func() {
		t.Helper()
		s, err := kube.CoreV1().Secrets("default").Get(t.Context(), "s", metav1.GetOptions{})
		if err != nil || string(s.Data["k"]) != hidden {
			t.Errorf("read %q, %v", s.Data["k"], err)
		}
	}
	_, stop = began(t, cfg)
	reads()
	stop()
	cfg.API.EncryptionFile = NoEncrypts
	p, _ = began(t, cfg)
	reads()
	for end := time.Now().Add(time.Minute); !backupHas(t, p, hidden); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("still encrypted")
		}
	}
}

// The data of a version before stays in plain for a day, and is encrypted by the
// first start after it.
func TestSecretsOfBefore(t *testing.T) {
	cfg := Config{DataDir: filepath.Join(t.TempDir(), "data"), Listen: freeport.Local(t), NodeName: "n", Log: slog.New(slog.NewTextHandler(io.Discard, nil))}
	_, dir, admin := prepared(t, "https://"+cfg.Listen)
	cfg.Authority = dir
	kube, err := kubernetes.NewForConfig(admin)
	if err != nil {
		t.Fatal(err)
	}
	before := cfg
	before.API.EncryptionFile = NoEncrypts
	_, stop := began(t, before)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}, StringData: map[string]string{"k": hidden}}
	if _, err := kube.CoreV1().Secrets("default").Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	stop()
	p, stop := began(t, cfg)
	if !backupHas(t, p, hidden) {
		t.Error("encrypted by the first start")
	}
	stop()
	old := time.Now().Add(-25 * time.Hour)
	if err := os.Chtimes(filepath.Join(cfg.DataDir, keysDir), old, old); err != nil {
		t.Fatal(err)
	}
	p, _ = began(t, cfg)
	for end := time.Now().Add(time.Minute); !backupHas(t, p, "k8s:enc:secretbox:v1:own:"); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("still in plain")
		}
	}
}

// Who chooses: the flag before all, then the cluster's own key; one of several
// that was given none makes none.
func TestChooseEncryption(t *testing.T) {
	for _, tt := range []struct {
		name, flag string
		has        bool
		member     bool
		want       string
	}{
		{name: "begins", want: ownKey},
		{name: "has one", has: true, want: ownKey},
		{name: "a file", flag: "/etc/mine.yaml", has: true, want: "/etc/mine.yaml"},
		{name: "none", flag: NoEncrypts},
		{name: "none any more", flag: NoEncrypts, has: true, want: ownPlain},
		{name: "joined", member: true, want: ownKey}, // without a key, until there is one for all
		{name: "first of several", member: true, has: true, want: ownKey},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := NewControlPlane(Config{DataDir: t.TempDir(), API: API{EncryptionFile: tt.flag}, Log: slog.New(slog.DiscardHandler)})
			if tt.has {
				if err := os.Mkdir(p.cfg.file(keysDir), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(p.cfg.file(ownKey), encryptionText("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", false), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if tt.member {
				p.member = &member.State{Name: "n"}
			}
			if err := p.chooseEncryption(time.Now()); err != nil {
				t.Fatal(err)
			}
			want := tt.want
			if want == ownKey || want == ownPlain {
				want = p.cfg.file(want)
			}
			if got := p.cfg.API.EncryptionFile; got != want {
				t.Error(fmt.Sprintf("%q, want %q", got, want))
			}
		})
	}
}
