package source

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// tree stores a tree object that git itself would not make.
func (w *work) tree(entries ...string) string {
	w.Helper()
	var b bytes.Buffer
	for i := 0; i < len(entries); i += 3 {
		b.WriteString(entries[i] + " " + entries[i+1] + "\x00")
		b.Write(must(hex.DecodeString(entries[i+2])))
	}
	cmd := exec.Command("git", "hash-object", "-w", "--literally", "-t", "tree", "--stdin")
	cmd.Dir, cmd.Stdin = w.dir, &b
	return strings.TrimSpace(string(must(cmd.Output())))
}

// commitTree makes a tree the head of main.
func (w *work) commitTree(tree string) string {
	w.Helper()
	sha := w.git("commit-tree", "-m", "evil", tree)
	w.git("update-ref", "refs/heads/main", sha)
	return sha
}

func TestNamesThatLeadOut(t *testing.T) {
	w := newWork(t)
	w.commit("a.yaml", "a\n")
	blob := w.git("rev-parse", "HEAD:a.yaml")
	dir := w.tree("100644", "x", blob)
	bad := []string{"..", ".", ".git", ".GIT", ".Git ", ".git.", "git~1", "GIT~1", ".git::$INDEX_ALLOCATION", ".g\u200cit", "a/b", `a\..\b`, "../../etc/passwd", strings.Repeat("x", 256)}
	for _, name := range bad {
		for _, e := range [][]string{{"100644", name, blob}, {"40000", name, dir}} {
			sha := w.commitTree(w.tree(append(e, "100644", "zzz.yaml", blob)...))
			s := New(Config{URL: w.dir})
			fetched(t, s, sha)
			got := files(t, s, sha)
			if len(got) != 2 || !strings.HasSuffix(got[0], " !BadName") || got[1] != "zzz.yaml a\n" {
				t.Errorf("%q as %s: %q", name, e[0], got)
			}
			s.Close()
		}
	}
	sha := w.commitTree(w.tree("100644", "a.yaml", blob, "100644", "a.yaml", blob))
	s := New(Config{URL: w.dir})
	defer s.Close()
	fetched(t, s, sha)
	if got := files(t, s, sha); len(got) != 2 || got[1] != "a.yaml !BadName" {
		t.Errorf("twice: %q", got)
	}
}

// A remote that can leave out long files is asked to; they are findings, and
// cost nothing.
func TestLongFilesAreLeftOut(t *testing.T) {
	for _, filter := range []bool{true, false} {
		w, bare, _ := served(t)
		w.git("-C", bare, "config", "uploadpack.allowFilter", map[bool]string{true: "true", false: "false"}[filter])
		noise := make([]byte, 1<<20)
		rand.Read(noise)
		head := w.commit("big.bin", string(noise))
		w.push("main")
		web := serveHTTP(t, bare)
		cfg := web.config(t)
		cfg.Limits.FileSize = 1000
		want := "apps/web.yaml web\n"
		for range 2 { // and after a restart
			before := web.sent.Load()
			s := New(cfg)
			fetched(t, s, head)
			if got := files(t, s, head); len(got) != 3 || got[1] != want || got[2] != "big.bin !TooLarge" {
				t.Errorf("filter %v: %q", filter, got)
			}
			if sent := web.sent.Load() - before; filter && sent > 20_000 {
				t.Errorf("%d bytes were sent", sent)
			}
			s.Close()
		}
		s := New(cfg)
		defer s.Close()
		fetched(t, s, head)
		noise[0]++
		next := w.commit("big.bin", string(noise), "small.yaml", "s\n")
		w.push("main")
		if got := files(t, s, fetched(t, s, next).SHA); len(got) != 4 || got[2] != "big.bin !TooLarge" {
			t.Errorf("filter %v: %q", filter, got)
		}
		cfg.Limits.FileSize = 2 << 20 // now it may be read
		s = New(cfg)
		defer s.Close()
		fetched(t, s, next)
		if f, err := must(s.Tree(next)).File("big.bin"); err != nil || content(t, f) != string(noise) {
			t.Errorf("filter %v: File = %v", filter, err)
		}
	}
}

// A pack over the bound is refused, and what was here goes on serving.
func TestRemoteSendsTooMuch(t *testing.T) {
	w, bare, first := served(t)
	cfg := serveHTTP(t, bare).config(t)
	cfg.Limits.Fetch = 200_000
	s := New(cfg)
	defer s.Close()
	fetched(t, s, first)
	noise := make([]byte, 300_000)
	rand.Read(noise)
	w.commit("pack.bin", string(noise))
	w.push("main")
	fails(t, s, ErrTooLarge, "sends more than is read", "without large files")
	w.git("reset", "-q", "--hard", first)
	w.commit("object.bin", strings.Repeat("a", 300_000)) // a short pack that grows
	w.push("--force", "main")
	fails(t, s, ErrTooLarge, "an object of")
	if c, err := s.Fetch(t.Context()); err == nil || c.SHA != first || !c.Stale || len(files(t, s, first)) != 2 {
		t.Errorf("Fetch = %+v, %v", c, err)
	}
	left := must(filepath.Glob(filepath.Join(cfg.Dir, "*", incomingPack+"*")))
	if len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	w.git("reset", "-q", "--soft", first)
	next := w.commit("object.bin", "small")
	w.push("--force", "main")
	fetched(t, s, next)
}

// A file of 1 GB, which zeros make small to send, costs the memory of none.
func TestGigabyteFile(t *testing.T) {
	if testing.Short() {
		t.Skip("writes a gigabyte")
	}
	size := int64(1_000_000_000)
	if raceEnabled { // two minutes of hashing; the run without the detector has it whole
		size /= 5
	}
	w, bare, _ := served(t)
	if err := os.WriteFile(filepath.Join(w.dir, "big.bin"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(w.dir, "big.bin"), size); err != nil {
		t.Fatal(err)
	}
	w.git("config", "core.bigFileThreshold", "1m")
	head := w.commit()
	w.push("main")
	s := New(serveHTTP(t, bare).config(t))
	defer s.Close()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	fetched(t, s, head)
	runtime.ReadMemStats(&after)
	if sys := after.HeapSys - before.HeapSys; sys > 64<<20 && after.HeapSys > before.HeapSys {
		t.Errorf("the heap grew by %d MiB", sys>>20)
	}
	if got := files(t, s, head); len(got) != 3 || got[2] != "big.bin !TooLarge" {
		t.Errorf("%q", got)
	}
}

// hanging begins an answer and then sends nothing more.
func hanging(t *testing.T, bare string, after int) *httpServer {
	s := serveHTTP(t, bare)
	inner := s.Config.Handler
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			inner.ServeHTTP(w, r)
			return
		}
		rec := httptest.NewRecorder()
		inner.ServeHTTP(rec, r)
		w.Header().Set("Content-Type", rec.Header().Get("Content-Type"))
		w.Write(rec.Body.Bytes()[:min(after, rec.Body.Len())])
		http.NewResponseController(w).Flush()
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	return s
}

func TestRemoteHangsInThePack(t *testing.T) {
	_, bare, _ := served(t)
	for _, after := range []int{0, 6, 30, 100} {
		cfg := hanging(t, bare, after).config(t)
		cfg.Timeout = 500 * time.Millisecond
		s := New(cfg)
		began := time.Now()
		fails(t, s, ErrUnreachable, "does not answer in time")
		if d := time.Since(began); d > 10*time.Second {
			t.Errorf("it took %s", d)
		}
		s.Close()
	}
}

// However an answer breaks off or is wrong, there is an error and no clone.
func TestTruncatedAndFlippedPacks(t *testing.T) {
	_, bare, first := served(t)
	s := serveHTTP(t, bare)
	inner := s.Config.Handler
	var change func([]byte) []byte
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := httptest.NewRecorder()
		inner.ServeHTTP(rec, r)
		body := rec.Body.Bytes()
		if r.Method == http.MethodPost && change != nil {
			body = change(bytes.Clone(body))
		}
		for k, v := range rec.Header() {
			w.Header()[k] = v
		}
		w.Header().Del("Content-Length")
		w.WriteHeader(rec.Code)
		w.Write(body)
	})
	src := New(s.config(t))
	defer src.Close()
	for n := range 60 {
		change = func(b []byte) []byte { return b[:len(b)*n/60] }
		if c, err := src.Fetch(t.Context()); err == nil || c.SHA != "" {
			t.Fatalf("a pack cut at %d/60: %+v, %v", n, c, err)
		}
	}
	for n := range 60 {
		change = func(b []byte) []byte {
			at := bytes.Index(b, []byte("PACK"))
			b[at+(len(b)-at-9)*n/60] ^= 0x41 // the last 9 bytes are those of the end
			return b
		}
		if c, err := src.Fetch(t.Context()); err == nil || c.SHA != "" {
			t.Fatalf("a pack with a flipped byte at %d/60: %+v, %v", n, c, err)
		}
	}
	change = nil
	fetched(t, src, first)
}

func TestClientCertificate(t *testing.T) {
	_, bare, first := served(t)
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	name := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "writ"}, NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature}
	der := must(x509.CreateCertificate(rand.Reader, name, name, key.Public(), key))
	pool := x509.NewCertPool()
	pool.AddCert(must(x509.ParseCertificate(der)))
	plain := serveHTTP(t, bare)
	web := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.SetBasicAuth("ann", password)
		plain.Config.Handler.ServeHTTP(w, r)
	}))
	web.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool}
	web.StartTLS()
	t.Cleanup(web.Close)
	cfg := Config{URL: web.URL + "/repo.git", Dir: t.TempDir(), Auth: Auth{
		CA:         pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: web.Certificate().Raw}),
		ClientCert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		ClientKey:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: must(x509.MarshalPKCS8PrivateKey(key))}),
	}}
	s := New(cfg)
	defer s.Close()
	fetched(t, s, first)
	cfg.Dir, cfg.Auth.ClientCert, cfg.Auth.ClientKey = t.TempDir(), nil, nil
	o := New(cfg)
	defer o.Close()
	fails(t, o, ErrUnreachable, "certificate")
}

// A redirect takes no credentials to another host.
func TestRedirects(t *testing.T) {
	_, bare, first := served(t)
	web := serveHTTP(t, bare)
	inner := web.Config.Handler
	to, secret := "", false
	web.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if to != "" && strings.HasPrefix(r.URL.Path, "/old.git") {
			http.Redirect(w, r, to+strings.TrimPrefix(r.URL.Path, "/old.git")+"?"+r.URL.RawQuery, http.StatusMovedPermanently)
			return
		}
		inner.ServeHTTP(w, r)
	})
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		secret = secret || r.Header.Get("Authorization") != ""
	}))
	t.Cleanup(other.Close)
	cfg := web.config(t)
	cfg.URL = web.URL + "/old.git"
	s := New(cfg)
	defer s.Close()
	to = strings.Replace(web.URL, "127.0.0.1", "localhost", 1) + "/repo.git"
	fails(t, s, ErrConfig, "has moved to https://localhost", "correct the URL")
	to = other.URL + "/repo.git" // the same host, without TLS
	fails(t, s, ErrUnreachable, "changes scheme")
	if secret {
		t.Error("the credentials were sent to the other host")
	}
	to = web.URL + "/repo.git"
	fetched(t, s, first)
}

// What is asked of a remote in the meantime does not hold those who read.
func TestReadersDoNotWaitForAFetch(t *testing.T) {
	w, bare, first := served(t)
	web := serveHTTP(t, bare)
	s := New(web.config(t))
	defer s.Close()
	fetched(t, s, first)
	inner, asked, release := web.Config.Handler, make(chan struct{}), make(chan struct{})
	web.Config.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-release
		inner.ServeHTTP(rw, r)
	})
	next := w.commit("c.yaml", "c\n")
	w.push("main")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { _, err := s.Fetch(ctx); done <- err }()
	<-asked
	if got := files(t, s, first); len(got) != 2 {
		t.Errorf("files = %q", got)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Fetch = %v", err)
	}
	close(release)
	web.Config.Handler = inner
	fetched(t, s, next)
}

// Folders in each other without end are refused when they are fetched, however
// little they weigh; as much as is followed is taken.
func TestDeepFoldersAreRefused(t *testing.T) {
	w, bare, _ := served(t)
	tree := w.tree("100644", "x", w.git("rev-parse", "HEAD:a.yaml"))
	for range maxDepth - 1 {
		tree = w.tree("40000", "d", tree)
	}
	sha := w.commitTree(tree)
	w.git("push", "-q", "--force", "origin", sha+":main")
	s := New(serveHTTP(t, bare).config(t))
	defer s.Close()
	fetched(t, s, sha)
	w.git("push", "-q", "--force", "origin", w.commitTree(w.tree("40000", "d", w.tree("40000", "d", w.tree("40000", "d", tree))))+":main")
	fails(t, s, ErrTooLarge, "folders lie in each other more than 100 deep")
}
