package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const address = "127.0.0.1:16443"

// env is a place for one benchmark: a data directory and the processes on it.
type env struct {
	bin   string
	dir   string
	procs []*exec.Cmd
	flags []string // of the server
	// upstream, if set, is the command that runs upstream's server instead.
	upstream []string
}

func newEnv(bin string) (*env, error) {
	abs, err := filepath.Abs(bin)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "writ-bench-")
	if err != nil {
		return nil, err
	}
	return &env{bin: abs, dir: dir}, nil
}

func (e *env) close() {
	for _, p := range e.procs {
		e.stop(p)
	}
	_ = os.RemoveAll(e.dir)
}

func (e *env) data() string { return filepath.Join(e.dir, "data") }

// start runs writ in the background.
func (e *env) start(ctx context.Context, role string, args ...string) (*exec.Cmd, error) {
	log, err := os.OpenFile(filepath.Join(e.dir, role+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.CommandContext(ctx, e.bin, append([]string{role}, append(args, "--data-dir", e.data())...)...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	e.procs = append(e.procs, cmd)
	return cmd, nil
}

func (e *env) stop(p *exec.Cmd) {
	if p.ProcessState != nil {
		return
	}
	_ = p.Process.Signal(syscall.SIGTERM)
	_ = p.Wait() //nolint:errcheck // it was told to end
}

// server starts the control plane alone and returns how long it took from exec
// to the first 200 of /readyz.
func (e *env) server(ctx context.Context) (*exec.Cmd, time.Duration, error) {
	began := time.Now()
	p, err := e.startServer(ctx)
	if err != nil {
		return nil, 0, err
	}
	c := &http.Client{Timeout: time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // it asks only whether it answers
	}}
	took, err := awaitReady(c, began)
	return p, took, err
}

func (e *env) startServer(ctx context.Context) (*exec.Cmd, error) {
	if len(e.upstream) == 0 {
		return e.start(ctx, "server", append([]string{"--no-agent", "--listen", address}, e.flags...)...)
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	// In a network namespace without a route it finds no address to advertise;
	// nobody calls this one.
	args := append(slices.Clone(e.upstream[1:]), "--data-dir", e.data(), "--port", port, "--", "--advertise-address=192.0.2.1")
	cmd := exec.CommandContext(ctx, e.upstream[0], args...)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	e.procs = append(e.procs, cmd)
	return cmd, nil
}

// config returns the break-glass client configuration, without throttle.
func (e *env) config() (*rest.Config, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", filepath.Join(e.data(), "admin.kubeconfig"))
	if err != nil {
		return nil, err
	}
	cfg.QPS = -1
	cfg.ContentType = "application/vnd.kubernetes.protobuf"
	return cfg, nil
}

func (e *env) client() (*kubernetes.Clientset, error) {
	cfg, err := e.config()
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(cfg)
}

// usage is what a process has used so far.
type usage struct {
	cpu  time.Duration
	anon int64 // bytes, now
	rss  int64
}

func (u usage) since(before usage) time.Duration { return u.cpu - before.cpu }

// measure adds up a process and its children: upstream's server is two.
func measure(p *exec.Cmd) (usage, error) {
	u, err := measurePid(p.Process.Pid)
	if err != nil {
		return u, err
	}
	for _, pid := range children(p.Process.Pid) {
		c, err := measurePid(pid)
		if err != nil {
			return u, err
		}
		u.cpu, u.anon, u.rss = u.cpu+c.cpu, u.anon+c.anon, u.rss+c.rss
	}
	return u, nil
}

// children are the processes that any thread of a process has started.
func children(pid int) []int {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) //nolint:errcheck // the pattern is good
	var out []int
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			continue // the thread has ended
		}
		for s := range strings.FieldsSeq(string(data)) {
			if n, err := strconv.Atoi(s); err == nil {
				out = append(out, n)
			}
		}
	}
	return out
}

func measurePid(pid int) (usage, error) {
	dir := fmt.Sprintf("/proc/%d/", pid)
	stat, err := os.ReadFile(dir + "stat")
	if err != nil {
		return usage{}, err
	}
	f := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	ticks := func(s string) time.Duration {
		n, _ := strconv.ParseInt(s, 10, 64) //nolint:errcheck // the kernel prints numbers
		return time.Duration(n) * 10 * time.Millisecond
	}
	u := usage{cpu: ticks(f[11]) + ticks(f[12])}
	status, err := os.ReadFile(dir + "status")
	if err != nil {
		return usage{}, err
	}
	for line := range strings.Lines(string(status)) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		kb, _ := strconv.ParseInt(f[1], 10, 64) //nolint:errcheck // other lines are not read
		switch f[0] {
		case "RssAnon:":
			u.anon = kb << 10
		case "VmRSS:":
			u.rss = kb << 10
		}
	}
	return u, nil
}

// errNoServer says that a server did not come up.
var errNoServer = errors.New("the server is not ready after 90 s")

// awaitReady asks until the server says that it is ready.
func awaitReady(c *http.Client, began time.Time) (time.Duration, error) {
	for time.Since(began) < 90*time.Second {
		resp, err := c.Get("https://" + address + "/readyz")
		if err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return time.Since(began), nil
			}
		}
		time.Sleep(2 * time.Millisecond)
	}
	return 0, errNoServer
}

func mib(n int64) string        { return fmt.Sprintf("%.0f MiB", float64(n)/(1<<20)) }
func ms(d time.Duration) string { return fmt.Sprintf("%.0f ms", float64(d)/1e6) }
func each(d time.Duration, n int) string {
	return fmt.Sprintf("%.2f ms CPU", float64(d)/float64(n)/1e6)
}
