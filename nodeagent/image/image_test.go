package image

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestNormalize(t *testing.T) {
	for in, want := range map[string]string{
		"nginx": "docker.io/library/nginx:latest", "a/b:1": "docker.io/a/b:1", "quay.io/x/y": "quay.io/x/y:latest",
		"writ.local/demo:v1": "writ.local/demo:v1", "localhost:5000/x": "localhost:5000/x:latest",
	} {
		if got, err := Normalize(in); err != nil || got != want {
			t.Errorf("%s: %s, %v; want %s", in, got, err, want)
		}
	}
	for _, bad := range []string{"", "UPPER", "a b", "x:y:z", strings.Repeat("a", 300)} {
		if got, err := Normalize(bad); !errors.Is(err, ErrInvalidName) {
			t.Errorf("%q: %s, %v", bad, got, err)
		}
	}
}

func TestMustPull(t *testing.T) {
	tests := []struct {
		p       corev1.PullPolicy
		present bool
		want    bool
		err     error
	}{
		{corev1.PullAlways, true, true, nil}, {corev1.PullAlways, false, true, nil}, {corev1.PullIfNotPresent, true, false, nil},
		{corev1.PullIfNotPresent, false, true, nil}, {corev1.PullNever, true, false, nil}, {corev1.PullNever, false, false, ErrNeverPull},
	}
	for _, tt := range tests {
		if got, err := MustPull(tt.p, tt.present); got != tt.want || !errors.Is(err, tt.err) {
			t.Errorf("%s present=%v: %v, %v", tt.p, tt.present, got, err)
		}
	}
}

func TestKeyring(t *testing.T) {
	secret := func(json string) *corev1.Secret {
		return &corev1.Secret{Type: corev1.SecretTypeDockerConfigJson, Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte(json)}}
	}
	k, err := NewKeyring([]*corev1.Secret{
		secret(`{"auths":{"https://index.docker.io/v1/":{"auth":"dTpw"},"quay.io":{"username":"q","password":"1"},"quay.io/team":{"username":"t","password":"2"},"*.example.com":{"username":"w","password":"3"}}}`),
		{Type: corev1.SecretTypeOpaque, Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte("{")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for ref, want := range map[string]string{
		"docker.io/library/nginx:latest": "u", "quay.io/a/b:1": "q", "quay.io/team/b:1": "t q", "quay.io/teamster/b:1": "q",
		"r.example.com/x:1": "w", "a.r.example.com/x:1": "", "gcr.io/x:1": "",
	} {
		var got []string
		for _, c := range k.For(ref) {
			got = append(got, c.Username)
		}
		if g := strings.Join(got, " "); g != want {
			t.Errorf("%s: %q, want %q", ref, g, want)
		}
	}
	if _, err := NewKeyring([]*corev1.Secret{secret("{")}); err == nil {
		t.Error("a broken secret is accepted")
	}
}

// store counts what is asked of it.
type store struct {
	mu      sync.Mutex
	images  map[string]Image
	pulls   int
	imports int
	gate    chan struct{}
}

func (s *store) Image(_ context.Context, ref string) (Image, bool, error) {
	img, ok := s.images[ref]
	return img, ok, nil
}

func (s *store) Pull(_ context.Context, ref string, _ []Credentials) (Image, error) {
	s.mu.Lock()
	s.pulls++
	s.mu.Unlock()
	<-s.gate
	return Image{Ref: ref}, nil
}

func (s *store) Import(_ context.Context, r io.Reader, labels map[string]string) error {
	s.imports++
	tr := tar.NewReader(r)
	for {
		if _, err := tr.Next(); err == io.EOF {
			break
		} else if err != nil {
			return err
		}
	}
	for _, i := range shippedImages() {
		s.images[i.ref] = Image{Ref: i.ref, Labels: labels}
	}
	return nil
}

func (s *store) Images(context.Context) ([]Image, error)   { return nil, nil }
func (s *store) RemoveImage(context.Context, string) error { return nil }

func TestPullerPullsOnce(t *testing.T) {
	s := &store{gate: make(chan struct{})}
	p := NewPuller(s, 2)
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			if img, _, err := p.Pull(t.Context(), "a", nil); err != nil || img.Ref != "a" {
				t.Errorf("%v, %v", img, err)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := p.Pull(ctx, "a", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	for {
		p.mu.Lock()
		n := len(p.pulling)
		p.mu.Unlock()
		if n == 1 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	time.Sleep(10 * time.Millisecond) // let all ten ask
	close(s.gate)
	wg.Wait()
	if s.pulls != 1 {
		t.Errorf("pulled %d times", s.pulls)
	}
}

func TestShipped(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "writ")
	if err := os.WriteFile(bin, bytes.Repeat([]byte("binary"), 1000), 0o755); err != nil {
		t.Fatal(err)
	}
	archive := func() []byte {
		f, err := os.Open(bin)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		var b bytes.Buffer
		if err := writeArchive(&b, f, shippedImages()); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	if !bytes.Equal(archive(), archive()) {
		t.Error("the same binary gives different images")
	}
	s := &store{images: map[string]Image{}}
	for i, want := range []bool{true, false, true} {
		if i == 2 { // another binary
			if err := os.WriteFile(bin, []byte("new"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		made, err := ImportShipped(t.Context(), s, bin)
		if err != nil || made != want {
			t.Errorf("import %d: %v, %v", i, made, err)
		}
	}
	if s.imports != 2 {
		t.Errorf("imported %d times", s.imports)
	}
}

// The shipped images are made when one is pulled, all at once, and anew from
// another binary; others are pulled from where they are.
func TestShippedWhenAskedFor(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "writ")
	below := &store{images: map[string]Image{}, gate: make(chan struct{})}
	close(below.gate)
	s := WithShipped(below, bin, slog.New(slog.DiscardHandler))
	there := func(ref string) bool {
		t.Helper()
		_, ok, err := s.Image(t.Context(), ref)
		if err != nil {
			t.Fatal(err)
		}
		return ok
	}
	if _, err := s.Pull(t.Context(), DemoV1, nil); err == nil {
		t.Error("made of no binary")
	}
	for i, content := range []string{"one", "another"} {
		if err := os.WriteFile(bin, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
		if there(DemoV1) || there(Pause) || below.imports != i {
			t.Errorf("before it is asked for: imported %d times", below.imports)
		}
		var wg sync.WaitGroup
		for _, ref := range []string{Pause, DemoV1, DemoV2, DemoV1} {
			wg.Go(func() {
				if img, err := s.Pull(t.Context(), ref, nil); err != nil || img.Ref != ref {
					t.Errorf("%s: %+v, %v", ref, img, err)
				}
			})
		}
		wg.Wait()
		if !there(DemoV1) || !there(Pause) || below.imports != i+1 || below.pulls != 0 {
			t.Errorf("imported %d times, pulled %d times", below.imports, below.pulls)
		}
	}
	if _, err := s.Pull(t.Context(), "writ.local/other:v1", nil); err != nil || below.pulls != 1 {
		t.Errorf("another image: %v, pulled %d times", err, below.pulls)
	}
}

func TestPlanGC(t *testing.T) {
	now := time.Now()
	img := func(id string, size int64, ago time.Duration, used bool) Candidate {
		return Candidate{Image: Image{ID: id, Size: size}, LastUsed: now.Add(-ago), InUse: used}
	}
	cs := []Candidate{img("young", 50, time.Minute, false), img("used", 50, 9*time.Hour, true), img("old", 5, 3*time.Hour, false), img("older", 5, 4*time.Hour, false), img("mid", 50, time.Hour, false)}
	shipped := img("shipped", 50, 9*time.Hour, false)
	shipped.Labels = map[string]string{labelSource: "x"}
	cs = append(cs, shipped)
	for _, tt := range []struct {
		free uint64
		want []string
	}{{50, nil}, {16, nil}, {14, []string{"older", "old"}}, {5, []string{"older", "old", "mid"}}} {
		var got []string
		for _, c := range PlanGC(GCPolicy{}, Disk{Capacity: 100, Available: tt.free}, now, cs) {
			got = append(got, c.ID)
		}
		if d := cmp.Diff(tt.want, got); d != "" {
			t.Errorf("%d %% free: %s", tt.free, d)
		}
	}
}
