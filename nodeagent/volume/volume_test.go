package volume

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

func files(kv ...string) Payload {
	p := Payload{}
	for i := 0; i < len(kv); i += 2 {
		p[kv[i]] = File{[]byte(kv[i+1]), 0o644}
	}
	return p
}

func visible(t *testing.T, dir string) string {
	t.Helper()
	var out []string
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "..") {
			continue
		}
		path := filepath.Join(dir, e.Name())
		fi, err := os.Stat(path)
		if err != nil {
			t.Fatalf("dangling link: %v", err)
		}
		if fi.IsDir() {
			out = append(out, e.Name()+"/{"+visible(t, path)+"}")
			continue
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, e.Name()+"="+string(b))
	}
	return strings.Join(out, " ")
}

var nobody = Owner{-1, -1}

func TestAtomicWriter(t *testing.T) {
	dir := t.TempDir()
	steps := []struct {
		p    Payload
		want string
	}{
		{files("a", "1", "b", "2"), "a=1 b=2"},
		{files("a", "1", "b", "3"), "a=1 b=3"},
		{files("b", "3"), "b=3"},
		{files("b", "3", "d/e/f", "x", "d/g", "y"), "b=3 d/{e/{f=x} g=y}"},
		{files("d", "file now"), "d=file now"},
		{files(), ""},
	}
	for _, s := range steps {
		if err := Write(dir, s.p, nobody); err != nil {
			t.Fatal(err)
		}
		if got := visible(t, dir); got != s.want {
			t.Errorf("%q, want %q", got, s.want)
		}
		hidden := 0
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), "..2") {
				hidden++
			}
		}
		if hidden != 1 {
			t.Errorf("%d directories are kept", hidden)
		}
	}
}

func TestWriteNothingWhenNothingChanges(t *testing.T) {
	dir := t.TempDir()
	if err := Write(dir, files("a", "1"), nobody); err != nil {
		t.Fatal(err)
	}
	before, _ := os.Readlink(filepath.Join(dir, dataLink))
	if err := Write(dir, files("a", "1"), nobody); err != nil {
		t.Fatal(err)
	}
	if after, _ := os.Readlink(filepath.Join(dir, dataLink)); after != before {
		t.Errorf("written again: %s, then %s", before, after)
	}
}

func TestWriteRefusesNamesThatLeadOut(t *testing.T) {
	for _, name := range []string{"../x", "/x", "a/../../x", "..data", "", "."} {
		err := Write(t.TempDir(), files(name, "x"), nobody)
		if name == "." || name == "" || err == nil {
			if err == nil {
				t.Errorf("%q was written", name)
			}
		}
	}
}

// A reader sees the old set or the new one, never a mixture.
func TestWriteIsAtomic(t *testing.T) {
	dir := t.TempDir()
	if err := Write(dir, files("a", "0", "b", "0"), nobody); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			cur, err := os.Readlink(filepath.Join(dir, dataLink))
			if err != nil {
				t.Errorf("no current set: %v", err)
				return
			}
			root, err := os.OpenRoot(filepath.Join(dir, cur))
			if err != nil {
				continue // replaced meanwhile
			}
			a, err1 := root.ReadFile("a")
			b, err2 := root.ReadFile("b")
			root.Close()
			if err1 == nil && err2 == nil && string(a) != string(b) {
				t.Errorf("mixture: a=%s b=%s", a, b)
			}
		}
	})
	for i := range 200 {
		v := fmt.Sprint(i)
		if err := Write(dir, files("a", v, "b", v), nobody); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	wg.Wait()
}

type objects struct {
	maps    map[string]map[string]string
	secrets map[string]map[string][]byte
	down    bool
}

func (o *objects) ConfigMap(_ context.Context, _, name string) (*corev1.ConfigMap, error) {
	if o.down {
		return nil, fmt.Errorf("the server is away")
	}
	d, ok := o.maps[name]
	if !ok {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, name)
	}
	return &corev1.ConfigMap{Data: d}, nil
}

func (o *objects) Secret(_ context.Context, _, name string) (*corev1.Secret, error) {
	d, ok := o.secrets[name]
	if !ok {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, name)
	}
	return &corev1.Secret{Data: d}, nil
}

type tokens struct {
	asked int
	life  time.Duration
	now   *time.Time
}

func (k *tokens) Token(_ context.Context, _, account string, tr *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error) {
	k.asked++
	out := tr.DeepCopy()
	out.Status.Token = fmt.Sprintf("%s-%d-%s", account, k.asked, strings.Join(tr.Spec.Audiences, "+"))
	out.Status.ExpirationTimestamp = metav1.NewTime(k.now.Add(k.life))
	return out, nil
}

func pod(vs ...corev1.Volume) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u"}, Spec: corev1.PodSpec{Volumes: vs}}
}

func mounter(t *testing.T, o *objects, k Tokens, now *time.Time) *Mounter {
	return New(Config{Dir: t.TempDir(), Objects: o, Tokens: k, Unprivileged: true, Now: func() time.Time { return *now }})
}

func read(t *testing.T, m *Mounter, p *corev1.Pod, volume, file string) string {
	t.Helper()
	dir, err := m.Path(t.Context(), p, find(p, volume))
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return "error"
	}
	return string(b)
}

func TestProjectedWithTokenRefresh(t *testing.T) {
	now := time.Now()
	o := &objects{maps: map[string]map[string]string{"ca": {"ca.crt": "CA"}}}
	k := &tokens{life: time.Hour, now: &now}
	m := mounter(t, o, k, &now)
	p := pod(corev1.Volume{Name: "api", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
		{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}},
		{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "ca"}}},
		{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{Path: "namespace", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.namespace"}}}}},
	}}}})
	f := Facts{Field: func(p *corev1.Pod, path string) (string, error) { return p.Namespace, nil }}
	next, err := m.Mount(t.Context(), p, f)
	if err != nil {
		t.Fatal(err)
	}
	if want := now.Add(48 * time.Minute); !next.Equal(want) {
		t.Errorf("refresh at %s, want %s", next, want)
	}
	if got := read(t, m, p, "api", "token") + " " + read(t, m, p, "api", "ca.crt") + " " + read(t, m, p, "api", "namespace"); got != "default-1- CA ns" {
		t.Errorf("files: %s", got)
	}
	now = now.Add(47 * time.Minute)
	if _, err := m.Mount(t.Context(), p, f); err != nil || k.asked != 1 {
		t.Errorf("token was renewed early: %d, %v", k.asked, err)
	}
	now = now.Add(2 * time.Minute)
	if _, err := m.Mount(t.Context(), p, f); err != nil || read(t, m, p, "api", "token") != "default-2-" {
		t.Errorf("token was not renewed: %v", err)
	}
	if err := m.Unmount(t.Context(), "u"); err != nil {
		t.Fatal(err)
	}
	if read(t, m, p, "api", "token") != "error" {
		t.Error("the token is still there")
	}
}

func TestObjectsInVolumes(t *testing.T) {
	now := time.Now()
	o := &objects{maps: map[string]map[string]string{"conf": {"a": "1", "b": "2"}}, secrets: map[string]map[string][]byte{"sec": {"k": []byte("s")}}}
	m := mounter(t, o, nil, &now)
	cm := func(name string, optional bool, items ...corev1.KeyToPath) corev1.Volume {
		return corev1.Volume{Name: "v", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: name}, Optional: &optional, Items: items}}}
	}
	p := pod(cm("conf", false))
	if _, err := m.Mount(t.Context(), p, Facts{}); err != nil {
		t.Fatal(err)
	}
	o.maps["conf"] = map[string]string{"a": "new"}
	if _, err := m.Mount(t.Context(), p, Facts{}); err != nil {
		t.Fatal(err)
	}
	if got := read(t, m, p, "v", "a") + read(t, m, p, "v", "b"); got != "newerror" {
		t.Errorf("after the change: %s", got)
	}
	o.down = true
	if _, err := m.Mount(t.Context(), p, Facts{}); err != nil || read(t, m, p, "v", "a") != "new" {
		t.Errorf("while the server is away: %v", err)
	}
	o.down = false

	for _, tt := range []struct {
		name, err string
		v         corev1.Volume
	}{
		{"missing", `MountVolume.SetUp failed for volume "v" : configmaps "none" not found`, cm("none", false)},
		{"optional", "", cm("none", true)},
		{"missing key", `MountVolume.SetUp failed for volume "v" : configmap references non-existent config key: zz`, cm("conf", false, corev1.KeyToPath{Key: "zz", Path: "x"})},
		{"path leads out", `MountVolume.SetUp failed for volume "v" : path "../x" leads out of the volume`, cm("conf", false, corev1.KeyToPath{Key: "a", Path: "../x"})},
	} {
		p := pod(tt.v)
		p.UID = types.UID("other " + tt.name)
		_, err := m.Mount(t.Context(), p, Facts{})
		if got := fmt.Sprint(err); (tt.err == "") != (err == nil) || (tt.err != "" && got != tt.err) {
			t.Errorf("%s: %v, want %s", tt.name, err, tt.err)
		}
	}
}

func TestHostPathTypes(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		path string
		kind corev1.HostPathType
		ok   bool
	}{
		{filepath.Join(dir, "none"), corev1.HostPathUnset, true}, {dir, corev1.HostPathDirectory, true}, {file, corev1.HostPathDirectory, false},
		{filepath.Join(dir, "made"), corev1.HostPathDirectoryOrCreate, true}, {file, corev1.HostPathFile, true}, {dir, corev1.HostPathFile, false},
		{filepath.Join(dir, "made-file"), corev1.HostPathFileOrCreate, true}, {"/dev/null", corev1.HostPathCharDev, true}, {"/dev/null", corev1.HostPathBlockDev, false},
		{file, corev1.HostPathSocket, false},
	} {
		err := checkHostPath(&corev1.HostPathVolumeSource{Path: tt.path, Type: &tt.kind})
		if (err == nil) != tt.ok {
			t.Errorf("%s as %q: %v", tt.path, tt.kind, err)
		}
	}
}

// A subPath cannot be led out of its volume by a link.
func TestSubPath(t *testing.T) {
	now := time.Now()
	m := mounter(t, &objects{}, nil, &now)
	p := pod(corev1.Volume{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
	if _, err := m.Mount(t.Context(), p, Facts{}); err != nil {
		t.Fatal(err)
	}
	dir, _ := m.Path(t.Context(), p, &p.Spec.Volumes[0])
	if err := os.Symlink("/etc", filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}
	for sub, ok := range map[string]bool{"a/b": true, "out": false, "out/passwd": false, "../x": false, "/etc": false} {
		_, err := m.Mounts(t.Context(), p, &corev1.Container{Name: "c", VolumeMounts: []corev1.VolumeMount{{Name: "v", MountPath: "/v", SubPath: sub}}}, nil)
		if (err == nil) != ok {
			t.Errorf("subPath %q: %v", sub, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "a/b")); err != nil {
		t.Error("the subPath was not made")
	}
}
