package join

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/certificate"
)

// authorityOf signs certificates of any time.
type authorityOf struct {
	t    *testing.T
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	pem  []byte
}

func newAuthority(t *testing.T) *authorityOf {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	as := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC), NotAfter: time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)}
	der, err := x509.CreateCertificate(rand.Reader, as, as, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	as.Raw = der
	return &authorityOf{t, key, as, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

// sign makes a certificate and its key, in one PEM and apart.
func (a *authorityOf) sign(from, until time.Time) (pair tls.Certificate, cert, key []byte) {
	a.t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "system:node:one", Organization: []string{"system:nodes"}},
		NotBefore: from, NotAfter: until, DNSNames: []string{serverName, "one"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}, a.cert, &k.PublicKey, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	b, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, key = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: b})
	if pair, err = tls.X509KeyPair(cert, key); err != nil {
		a.t.Fatal(err)
	}
	return pair, cert, key
}

// timed is a cluster whose certificate has a time, and whose clock can be set.
type timed struct {
	*httptest.Server
	ca     *authorityOf
	clock  atomic.Int64 // seconds ahead of ours
	answer atomic.Int64 // to all but cluster-info
}

func newTimed(t *testing.T, from, until time.Time) *timed {
	c := &timed{ca: newAuthority(t)}
	c.answer.Store(http.StatusNotFound)
	c.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", time.Now().Add(time.Duration(c.clock.Load())*time.Second).UTC().Format(http.TimeFormat))
		if r.URL.Path != infoPath {
			w.WriteHeader(int(c.answer.Load()))
			return
		}
		cfg := clientcmdapi.NewConfig()
		cfg.Clusters[""] = &clientcmdapi.Cluster{Server: c.URL, CertificateAuthorityData: c.ca.pem}
		text, err := clientcmd.Write(*cfg)
		if err != nil {
			t.Error(err)
		}
		_ = json.NewEncoder(w).Encode(&corev1.ConfigMap{Data: map[string]string{"kubeconfig": string(text)}}) //nolint:errcheck // the client asks for it
	}))
	pair, _, _ := c.ca.sign(from, until)
	c.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	c.Config.ErrorLog = nil
	c.StartTLS()
	t.Cleanup(c.Close)
	return c
}

// told is a log that is read while it is written.
type told struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *told) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *told) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func (s *told) await(t *testing.T, what ...string) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		missing := ""
		for _, w := range what {
			if !strings.Contains(s.String(), w) {
				missing = w
			}
		}
		if missing == "" {
			return
		}
	}
	t.Fatalf("not said: %q\nsaid:\n%s", what, s)
}

// patient is a member with a clock that is set by the test, and which tries often.
func (c *timed) patient(t *testing.T, change func(*Config)) (*Member, *told, *atomic.Int64) {
	s := &told{}
	cfg := Config{Server: c.URL, Token: token, NodeName: "one", Dir: t.TempDir(), WriteFile: os.WriteFile,
		Verify: func(info *corev1.ConfigMap, _ string) (string, error) { return info.Data["kubeconfig"], nil },
		Log:    slog.New(slog.NewTextHandler(s, &slog.HandlerOptions{Level: slog.LevelWarn}))}
	if change != nil {
		change(&cfg)
	}
	m, ahead := New(cfg), &atomic.Int64{}
	m.pause = 20 * time.Millisecond
	m.now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load()) * time.Second) }
	m.servers = newServers("", cfg.Server, cfg.WriteFile, m.cfg.Log)
	return m, s, ahead
}

const years = 365 * 24 * 3600

// A clock that is years off, one way or the other, holds up a join until it is set.
func TestJoinWithWrongClock(t *testing.T) {
	for name, tt := range map[string]struct {
		here, there int64
		want        []string
	}{
		"behind":        {-7 * years, 0, []string{"not a member of the cluster yet, it is tried again", "this machine's clock says 20", " and the server's 20", "is valid from 20", "set the clock, by timeServers in node.yaml"}},
		"ahead":         {9 * years, 0, []string{"this machine's clock says 20", "set the clock, by timeServers in node.yaml"}},
		"of the server": {-7 * years, -7 * years, []string{"the clocks of this machine and of the server both say", "start the server again"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newTimed(t, time.Now().Add(-time.Hour), time.Now().Add(365*24*time.Hour))
			m, s, ahead := c.patient(t, nil)
			ahead.Store(tt.here)
			c.clock.Store(tt.there)
			done := make(chan error, 1)
			go func() { done <- m.believe(t.Context()) }()
			s.await(t, tt.want...)
			t.Log(s)
			time.Sleep(100 * time.Millisecond)
			if n := strings.Count(s.String(), "\n"); n != 1 {
				t.Errorf("said %d times:\n%s", n, s)
			}
			ahead.Store(0)
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			if _, err := m.Authority(); err != nil {
				t.Error(err)
			}
		})
	}
}

// keepPair writes a client certificate as the manager does.
func keepPair(t *testing.T, dir string, cert, key []byte) {
	t.Helper()
	s, err := certificate.NewFileStore(clientPair, dir, dir, "", "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Update(cert, key); err != nil {
		t.Fatal(err)
	}
}

// A machine that has joined does not give up because its clock says that its
// certificate has ended, or because the server's does.
func TestMemberWithWrongClock(t *testing.T) {
	c := newTimed(t, time.Now().Add(-time.Hour), time.Now().Add(365*24*time.Hour))
	_, cert, key := c.ca.sign(time.Now().Add(-time.Hour), time.Now().Add(365*24*time.Hour))
	joined := func(cfg *Config) {
		cfg.Token = ""
		keepPair(t, cfg.Dir, cert, key)
		if err := os.WriteFile(filepath.Join(cfg.Dir, caFile), c.ca.pem, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m, s, ahead := c.patient(t, joined)
	ahead.Store(9 * years)
	done := make(chan error, 1)
	go func() { done <- m.Join(t.Context()) }()
	s.await(t, "this machine's clock says 20", "the certificate of this node is valid from 20")
	t.Log(s)
	c.CloseClientConnections()
	ahead.Store(0)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { done <- m.Run(ctx) }()
	before, _ := m.pairs()
	if err := m.open(); err != nil { // as when the clock was set
		t.Fatal(err)
	}
	if after, _ := m.pairs(); after == before || after.Current() == nil {
		t.Error("the certificate was not looked at again")
	}

	// The server's clock: it does not take what is valid here.
	client, err := rest.HTTPClientFor(m.Client())
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseIdleConnections()
	c.answer.Store(http.StatusUnauthorized)
	c.clock.Store(-7 * years)
	resp, err := client.Get(c.URL + "/api")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	s.await(t, "the server's clock says 20", "set the clock of the server")
	t.Log(s)
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// Only when the server agrees has it ended.
func TestMemberWhoseCertificateHasEnded(t *testing.T) {
	c := newTimed(t, time.Now().Add(-time.Hour), time.Now().Add(365*24*time.Hour))
	_, cert, key := c.ca.sign(time.Now().Add(-48*time.Hour), time.Now().Add(-24*time.Hour))
	m, _, _ := c.patient(t, func(cfg *Config) { cfg.Token = ""; keepPair(t, cfg.Dir, cert, key) })
	err := m.believe(t.Context())
	var final *RefusedError
	if !errors.As(err, &final) || !strings.Contains(err.Error(), "has expired on 20") || !strings.Contains(err.Error(), "join again, with --token") {
		t.Errorf("%v", err)
	}
	t.Log(err)
	c.Close() // nobody to ask: it may be the clock
	if err := m.approach(t.Context()); err == nil || errors.As(err, &final) || !strings.Contains(err.Error(), "the server was asked for the time: "+c.URL+" does not answer") {
		t.Errorf("%v", err)
	}
	t.Log(m.approach(t.Context()))
}

// A node that runs says it, too, when its clock is set wrong.
func TestCallsWithWrongClock(t *testing.T) {
	c := newTimed(t, time.Now().Add(7*365*24*time.Hour), time.Now().Add(8*365*24*time.Hour))
	_, cert, key := c.ca.sign(time.Now().Add(-time.Hour), time.Now().Add(365*24*time.Hour))
	m, s, _ := c.patient(t, func(cfg *Config) {
		keepPair(t, cfg.Dir, cert, key)
		if err := os.WriteFile(filepath.Join(cfg.Dir, caFile), c.ca.pem, 0o600); err != nil {
			t.Fatal(err)
		}
	})
	client, err := rest.HTTPClientFor(m.Client())
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseIdleConnections()
	for range 3 {
		_, err = client.Get(c.URL + "/api") //nolint:bodyclose // there is none
	}
	var bad *ClockError
	if !errors.As(err, &bad) || strings.Count(s.String(), "this machine's clock says") != 1 {
		t.Errorf("%v; said:\n%s", err, s)
	}
	t.Log(s)
}

func TestStepped(t *testing.T) {
	day := time.Date(2019, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, tt := range []struct{ day, runs, want time.Duration }{{10, 10, 0}, {1000, 10, 990}, {-990, 10, -1000}} {
		if got := (mark{day, time.Hour}).stepped(mark{day.Add(tt.day * time.Second), time.Hour + tt.runs*time.Second}); got != tt.want*time.Second {
			t.Errorf("%v: %v", tt, got)
		}
	}
}

// What holds up a certificate is said, and asked for again.
func TestWhyNoCertificate(t *testing.T) {
	c := newTimed(t, time.Now().Add(-time.Hour), time.Now().Add(365*24*time.Hour))
	m, s, _ := c.patient(t, nil)
	c.answer.Store(http.StatusUnauthorized)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- m.Join(ctx) }()
	s.await(t, "waiting for the certificate of this node", c.URL+" does not know the token of this machine: it has expired or was deleted; make one with 'writ token create'")
	c.answer.Store(http.StatusForbidden)
	s.await(t, "it is not one by which nodes join")
	t.Log(s)
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// An unreachable server is said once, with what to look at.
func TestUnreachable(t *testing.T) {
	c := newTimed(t, time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	m, s, _ := c.patient(t, func(cfg *Config) { cfg.Server = "https://127.0.0.1:1" })
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := m.believe(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	want := "https://127.0.0.1:1 does not answer (dial tcp 127.0.0.1:1: connect: connection refused): see that it runs, and that this machine reaches it"
	if got := s.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, want) {
		t.Errorf("said:\n%s", got)
	}
	t.Log(s)
}

// small is a file system with room for little, filled to the last byte.
func small(t *testing.T) (dir string, free func()) {
	t.Helper()
	dir = t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=16k"); err != nil {
		t.Skipf("mount a small file system: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	filler := filepath.Join(dir, "filler")
	if err := os.WriteFile(filler, make([]byte, 64<<10), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("it is not full: %v", err)
	}
	return dir, func() {
		if err := os.Remove(filler); err != nil {
			t.Error(err)
		}
	}
}

// A full disk holds up a join, is said, and leaves nothing that counts.
func TestJoinOnFullDisk(t *testing.T) {
	c := newTimed(t, time.Now().Add(-time.Hour), time.Now().Add(365*24*time.Hour))
	dir, free := small(t)
	m, s, _ := c.patient(t, func(cfg *Config) { cfg.Dir = dir })
	done := make(chan error, 1)
	go func() { done <- m.believe(t.Context()) }()
	s.await(t, "the cluster was found, and cannot be remembered: the disk of "+dir+" is full: make room on it", "no space left on device")
	t.Log(s)
	free()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if ca, err := m.Authority(); err != nil || !bytes.Equal(ca, c.ca.pem) {
		t.Errorf("%q, %v", ca, err)
	}
}

// A certificate that is signed and cannot be kept does not take the place of
// the one before.
func TestCertificateOnFullDisk(t *testing.T) {
	c := newTimed(t, time.Now().Add(-time.Hour), time.Now().Add(365*24*time.Hour))
	dir, free := small(t)
	m, _, _ := c.patient(t, func(cfg *Config) { cfg.Dir = dir })
	free()
	_, cert, key := c.ca.sign(time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour))
	keepPair(t, dir, cert, key)
	before, err := m.held()
	if err != nil || before == nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "filler"), make([]byte, 64<<10), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
	store, err := certificate.NewFileStore(clientPair, dir, dir, "", "")
	if err != nil {
		t.Fatal(err)
	}
	k := keeping{store, dir, clientPair, &m.why}
	files := len(k.files())
	time.Sleep(1100 * time.Millisecond) // a file is named by its second
	_, cert, key = c.ca.sign(time.Now().Add(-time.Hour), time.Now().Add(48*time.Hour))
	if _, err := k.Update(cert, key); err == nil {
		t.Fatal("it was kept")
	}
	if err := m.why.get(); err == nil || !strings.Contains(err.Error(), "the certificate of this node was signed, and cannot be kept: the disk of "+dir+" is full: make room on it") {
		t.Errorf("%v", err)
	}
	if now, err := m.held(); err != nil || !now.Equal(before) || len(k.files()) != files {
		t.Errorf("%v, %v", err, k.files())
	}
	if err := os.Remove(filepath.Join(dir, "filler")); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Update(cert, key); err != nil || m.why.get() != nil {
		t.Errorf("%v, %v", err, m.why.get())
	}
}

// A certificate that is there in part is set aside, not deleted.
func TestDamagedCertificate(t *testing.T) {
	c := newTimed(t, time.Now().Add(-time.Hour), time.Now().Add(365*24*time.Hour))
	_, cert, key := c.ca.sign(time.Now().Add(-time.Hour), time.Now().Add(365*24*time.Hour))
	cut := func(cfg *Config) {
		keepPair(t, cfg.Dir, cert, key)
		if err := os.Truncate(filepath.Join(cfg.Dir, clientPair+"-current.pem"), 40); err != nil {
			t.Fatal(err)
		}
	}
	m, _, _ := c.patient(t, func(cfg *Config) { cut(cfg); cfg.Token = "" })
	var final *RefusedError
	if err := m.believe(t.Context()); !errors.As(err, &final) || !strings.Contains(err.Error(), "cannot be read (tls: failed to find any PEM data in certificate input): join again, with --token") {
		t.Errorf("%v", err)
	}
	m, s, _ := c.patient(t, cut)
	c.answer.Store(http.StatusUnauthorized)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- m.Join(ctx) }()
	s.await(t, "cannot be read: it is set aside, and another one is asked for", "does not know the token")
	cancel()
	<-done
	if _, err := os.Lstat(m.file(clientPair + "-current.pem.damaged")); err != nil {
		t.Error(err)
	}
}
