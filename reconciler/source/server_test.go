package source

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// httpServer serves a bare repository over TLS as Git's own program does.
type httpServer struct {
	*httptest.Server
	requests atomic.Int64
	sent     atomic.Int64 // bytes of bodies
	broken   atomic.Bool  // answers break off
}

const password = "s3cr3t-word"

func serveHTTP(t testing.TB, bare string) *httpServer {
	t.Helper()
	path := strings.TrimSpace(string(must(exec.Command("git", "--exec-path").Output())))
	git := &cgi.Handler{Path: filepath.Join(path, "git-http-backend"), Env: []string{"GIT_PROJECT_ROOT=" + filepath.Dir(bare), "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"}}
	s := &httpServer{}
	s.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.requests.Add(1)
		user, pass, _ := r.BasicAuth()
		if (user != "ann" || pass != password) && r.Header.Get("Authorization") != "Bearer "+password {
			w.Header().Set("WWW-Authenticate", "Basic")
			http.Error(w, "wrong password "+pass, http.StatusUnauthorized)
			return
		}
		if !strings.HasPrefix(r.URL.Path, "/"+filepath.Base(bare)) {
			http.NotFound(w, r)
			return
		}
		git.ServeHTTP(&counting{w, s, r.Method == http.MethodPost}, r)
	}))
	t.Cleanup(s.Close)
	return s
}

// counting counts what is sent, and breaks packs off when the server is broken.
type counting struct {
	http.ResponseWriter
	s    *httpServer
	pack bool
}

func (c *counting) Write(p []byte) (int, error) {
	c.s.sent.Add(int64(len(p)))
	if c.pack && c.s.broken.Load() {
		c.ResponseWriter.Write(p[:len(p)/2])
		panic(http.ErrAbortHandler)
	}
	return c.ResponseWriter.Write(p)
}

func (s *httpServer) ca() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}

func (s *httpServer) config(t testing.TB) Config {
	return Config{URL: s.URL + "/repo.git", Dir: t.TempDir(), Auth: Auth{Username: "ann", Password: password, CA: s.ca()}}
}

// sshServer runs git-upload-pack for one key.
type sshServer struct {
	addr  string
	known []byte
	key   []byte // PEM of the client's
}

func newKey(t testing.TB) (ssh.Signer, []byte) {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return must(ssh.NewSignerFromKey(private)), pem.EncodeToMemory(must(ssh.MarshalPrivateKey(private, "")))
}

func serveSSH(t testing.TB) *sshServer {
	t.Helper()
	host, _ := newKey(t)
	client, key := newKey(t)
	conf := &ssh.ServerConfig{PublicKeyCallback: func(m ssh.ConnMetadata, k ssh.PublicKey) (*ssh.Permissions, error) {
		if m.User() != "git" || string(k.Marshal()) != string(client.PublicKey().Marshal()) {
			return nil, io.EOF
		}
		return nil, nil
	}}
	conf.AddHostKey(host)
	l := must(net.Listen("tcp", "127.0.0.1:0"))
	var wg sync.WaitGroup
	t.Cleanup(func() { l.Close(); wg.Wait() })
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { serveConn(conn, conf) })
		}
	})
	addr := l.Addr().String()
	return &sshServer{addr: addr, known: []byte(knownhosts.Line([]string{addr}, host.PublicKey()) + "\n"), key: key}
}

func serveConn(conn net.Conn, conf *ssh.ServerConfig) {
	defer conn.Close()
	c, chans, reqs, err := ssh.NewServerConn(conn, conf)
	if err != nil {
		return
	}
	defer c.Close()
	go ssh.DiscardRequests(reqs)
	for nc := range chans {
		ch, reqs, err := nc.Accept()
		if err != nil {
			return
		}
		for r := range reqs {
			if r.Type != "exec" {
				r.Reply(false, nil)
				continue
			}
			r.Reply(true, nil)
			cmd := exec.Command("sh", "-c", string(r.Payload[4:]))
			cmd.Stdout, cmd.Stderr = ch, ch.Stderr()
			in, _ := cmd.StdinPipe()
			go func() { io.Copy(in, ch); in.Close() }()
			status := byte(0)
			if cmd.Run() != nil {
				status = 128
			}
			ch.SendRequest("exit-status", false, []byte{0, 0, 0, status})
			ch.Close()
		}
	}
}
