package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/cgi"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/reconciler/source"
)

// forge is git's own HTTP server on loopback.
type forge struct {
	server http.Server
	url    string

	mu      sync.Mutex
	answers []time.Duration // what each request took
}

// since is what requests took after the first n.
func (f *forge) since(n int) []time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.answers[n:])
}

// serveForge serves the repositories below a directory until it is closed.
func serveForge(ctx context.Context, dir string) (*forge, error) {
	path, err := exec.CommandContext(ctx, "git", "--exec-path").Output()
	if err != nil {
		return nil, fmt.Errorf("find git http-backend: %w", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	backend := &cgi.Handler{Path: filepath.Join(strings.TrimSpace(string(path)), "git-http-backend"), Env: []string{"GIT_PROJECT_ROOT=" + dir, "GIT_HTTP_EXPORT_ALL=1"}}
	f := &forge{url: "http://" + l.Addr().String() + "/cluster.git"}
	f.server.Handler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		began := time.Now()
		backend.ServeHTTP(w, req)
		f.mu.Lock()
		defer f.mu.Unlock()
		f.answers = append(f.answers, time.Since(began))
	})
	go f.server.Serve(l) //nolint:errcheck // it ends when it is closed
	return f, nil
}

// polls measures polls of an outside repository that find nothing new, with
// 5,000 ConfigMaps applied.
func polls(ctx context.Context, e *env) ([]row, error) {
	dir, err := e.bare(ctx)
	if err != nil {
		return nil, err
	}
	f, err := serveForge(ctx, filepath.Dir(dir))
	if err != nil {
		return nil, err
	}
	defer f.server.Close()
	w, err := e.checkout(ctx, dir, 40)
	if err != nil {
		return nil, err
	}
	if err := w.fill(0, objects, 0, configMap); err != nil {
		return nil, err
	}
	head, err := w.push(ctx, "Five thousand objects")
	if err != nil {
		return nil, err
	}
	cost, err := e.pollCost(ctx, f, w, head.sha)
	if err != nil {
		return nil, err
	}
	var rows []row
	for _, kind := range []struct{ name, url, cost string }{{"over HTTP", f.url, cost}, {"of a directory", dir, ""}} {
		took, share, err := timePolls(ctx, f, kind.url, filepath.Join(e.dir, "clone"))
		if err != nil {
			return nil, err
		}
		ours := "p50 " + ms2(median(took)) + ", p99 " + ms2(quantile(took, 0.99))
		if share > 0 {
			ours += " (" + ms2(share) + " of it git's server)"
		}
		rows = append(rows, row{"P15", "poll " + kind.name + " that finds nothing", "25 CPU s, 8,040 calls", "10 ms, no API call", ours + kind.cost})
	}
	return rows, nil
}

// pollCost is what a poll costs a server, and what it does to the API: the
// server polls ten times a second for a while.
func (e *env) pollCost(ctx context.Context, f *forge, w *worktree, sha string) (string, error) {
	e.flags = []string{"--repo", f.url, "--interval", "100ms"}
	p, _, err := e.server(ctx)
	if err != nil {
		return "", err
	}
	defer e.stop(p)
	following, stop := context.WithCancel(ctx)
	defer stop()
	if err := w.follow(following); err != nil {
		return "", err
	}
	if _, err := w.await(ctx, sha, isApplied); err != nil {
		return "", err
	}
	stop()
	if _, err := atRest(ctx, p); err != nil {
		return "", err
	}
	before, err := e.toll(ctx, p, f)
	if err != nil {
		return "", err
	}
	time.Sleep(20 * time.Second)
	after, err := e.toll(ctx, p, f)
	if err != nil {
		return "", err
	}
	n := after.polls - before.polls
	if n == 0 {
		return "", errors.New("the server did not poll")
	}
	wrote := "no write"
	if after.version != before.version {
		wrote = "writes"
	}
	return fmt.Sprintf(", %s; %d polls made %d requests and %s", each(after.since(before.usage), n), n, after.requests-before.requests-ownRequests, wrote), nil
}

// toll is what polls may have cost so far.
type toll struct {
	usage
	polls    int
	requests int64  // to the API
	version  string // of the store: it moves with each write
}

// ownRequests are those that reading a toll makes, one of them uncounted yet.
const ownRequests = 2

func (e *env) toll(ctx context.Context, p *exec.Cmd, f *forge) (t toll, err error) {
	c, err := e.client()
	if err != nil {
		return t, err
	}
	list, err := c.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{})
	if err != nil {
		return t, err
	}
	t.version = list.ResourceVersion
	text, err := c.RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return t, err
	}
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "apiserver_request_total{") {
			continue
		}
		n, err := strconv.ParseFloat(strings.TrimSpace(line[strings.LastIndexByte(line, ' ')+1:]), 64)
		if err != nil {
			return t, fmt.Errorf("read metric %s: %w", line, err)
		}
		t.requests += int64(n)
	}
	t.polls = len(f.since(0))
	t.usage, err = measure(p)
	return t, err
}

// timePolls times asking a repository that has nothing new, with the server's
// own code in this process: no client can see when a poll of the server ends.
// share is what git's server took of one.
func timePolls(ctx context.Context, f *forge, url, clone string) (took []time.Duration, share time.Duration, err error) {
	s := source.New(source.Config{URL: url, Dir: clone})
	defer s.Close()
	if _, err := s.Fetch(ctx); err != nil {
		return nil, 0, err
	}
	const n = 300
	asked := len(f.since(0))
	for range n {
		began := time.Now()
		if _, err := s.Fetch(ctx); err != nil {
			return nil, 0, err
		}
		took = append(took, time.Since(began))
	}
	if answers := f.since(asked); len(answers) > 0 {
		share = median(answers)
	}
	return took, share, nil
}

func ms2(d time.Duration) string { return fmt.Sprintf("%.2f ms", float64(d)/1e6) }
