package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	utilexec "k8s.io/client-go/util/exec"
)

// executors are client-go's two ways to run a command.
func executors(t *testing.T, n *testNode, path string, q url.Values) map[string]remotecommand.Executor {
	t.Helper()
	u := n.url(path, q)
	ws, err := remotecommand.NewWebSocketExecutor(n.rest, http.MethodGet, u.String())
	if err != nil {
		t.Fatal(err)
	}
	old, err := remotecommand.NewWebSocketExecutorForProtocols(n.rest, http.MethodGet, u.String(), "v4.channel.k8s.io")
	if err != nil {
		t.Fatal(err)
	}
	sp, err := remotecommand.NewSPDYExecutor(n.rest, http.MethodPost, u)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]remotecommand.Executor{"v5": ws, "websocket-v4": old, "spdy": sp}
}

func query(streams string, command ...string) url.Values {
	q := url.Values{"command": command}
	for _, s := range strings.Fields(streams) {
		q.Set(s, "1")
	}
	return q
}

func TestExec(t *testing.T) {
	each(t, func(t *testing.T, n *testNode) {
		big := bytes.Repeat([]byte("0123456789abcdef"), 10<<20/16)
		for name, e := range executors(t, n, "/exec/shop/web/c", query("input output error", "/writ", "cat")) {
			if name == "websocket-v4" {
				continue // it cannot say that its input has ended
			}
			t.Run("cat-"+name, func(t *testing.T) {
				var out bytes.Buffer
				err := e.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdin: bytes.NewReader(big), Stdout: &out, Stderr: io.Discard})
				if err != nil || !bytes.Equal(out.Bytes(), big) {
					t.Errorf("%v, %d bytes of %d", err, out.Len(), len(big))
				}
			})
		}
		for name, e := range executors(t, n, "/exec/shop/web/uid-web/c", query("output error", "/writ", "exit", "7", "sorry")) {
			t.Run("exit-"+name, func(t *testing.T) {
				var out, errs bytes.Buffer
				err := e.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdout: &out, Stderr: &errs})
				var exit utilexec.CodeExitError
				if !errors.As(err, &exit) || exit.Code != 7 || errs.String() != "sorry\n" || out.Len() != 0 {
					t.Errorf("%v, %q, %q", err, out.String(), errs.String())
				}
			})
		}
		for name, e := range executors(t, n, "/exec/shop/web/c", query("output", "/writ", "flood", "3000001")) {
			t.Run("flood-"+name, func(t *testing.T) {
				var out bytes.Buffer
				if err := e.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdout: &out}); err != nil || out.Len() != 3000001 {
					t.Errorf("%v, %d bytes", err, out.Len())
				}
			})
		}
	})
}

// queue gives terminal sizes, then waits.
type queue struct {
	sizes chan remotecommand.TerminalSize
	ctx   context.Context
}

func (q queue) Next() *remotecommand.TerminalSize {
	select {
	case s := <-q.sizes:
		return &s
	case <-q.ctx.Done():
		return nil
	}
}

// A terminal has the size of the client's, also after it changes; and when the
// client vanishes, its command hears of that and ends.
func TestTerminal(t *testing.T) {
	each(t, func(t *testing.T, n *testNode) {
		for name, e := range executors(t, n, "/exec/shop/web/c", query("input output tty", "/writ", "size")) {
			t.Run(name, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				q := queue{make(chan remotecommand.TerminalSize, 100), ctx}
				outR, outW := io.Pipe()
				inR, inW := io.Pipe()
				defer inW.Close()
				done := make(chan error, 1)
				go func() {
					done <- e.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: inR, Stdout: outW, Tty: true, TerminalSizeQueue: q})
					_ = outW.Close()
				}()
				lines := make(chan string)
				go func() {
					defer close(lines)
					var all bytes.Buffer
					b := make([]byte, 100)
					for {
						c, err := outR.Read(b)
						all.Write(b[:c])
						for {
							i := bytes.IndexByte(all.Bytes(), '\n')
							if i < 0 {
								break
							}
							lines <- strings.TrimSpace(string(all.Next(i + 1)))
						}
						if err != nil {
							return
						}
					}
				}()
				for _, s := range []remotecommand.TerminalSize{{Width: 101, Height: 31}, {Width: 57, Height: 19}} {
					want := fmt.Sprintf("%d %d", s.Width, s.Height)
					tick := time.NewTicker(50 * time.Millisecond) // the program may not listen yet
					other := remotecommand.TerminalSize{Width: s.Width + 1, Height: s.Height}
					for seen := false; !seen; {
						select {
						case <-tick.C:
							q.sizes <- other
							s, other = other, s
						case line := <-lines:
							seen = line == want
						case <-ctx.Done():
							t.Errorf("no answer of size %s", want)
							seen = true
						}
					}
					tick.Stop()
				}
				cancel()
				for range lines {
				}
				if err := <-done; !errors.Is(err, context.Canceled) {
					t.Errorf("the client was left with %v", err)
				}
			})
		}
		n.awaitIdle(t)
	})
}

func TestManyAtOnce(t *testing.T) {
	each(t, func(t *testing.T, n *testNode) {
		var wg sync.WaitGroup
		for i := range 12 {
			text := fmt.Sprintf("client %d\n", i)
			for name, e := range executors(t, n, "/exec/shop/web/c", query("input output", "/writ", "cat")) {
				if name == "websocket-v4" {
					continue
				}
				wg.Go(func() {
					var out bytes.Buffer
					err := e.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdin: strings.NewReader(text), Stdout: &out})
					if err != nil || out.String() != text {
						t.Errorf("%s: %v, %q, want %q", name, err, out.String(), text)
					}
				})
			}
		}
		wg.Wait()
	})
}

func TestAttach(t *testing.T) {
	each(t, func(t *testing.T, n *testNode) {
		for name, e := range executors(t, n, "/attach/shop/web/cat", query("input output")) {
			t.Run(name, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				inR, inW := io.Pipe()
				outR, outW := io.Pipe()
				done := make(chan error, 1)
				go func() { done <- e.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: inR, Stdout: outW}) }()
				if _, err := io.WriteString(inW, "hello "+name+"\n"); err != nil {
					t.Fatal(err)
				}
				b := make([]byte, len("hello "+name+"\n"))
				if _, err := io.ReadFull(outR, b); err != nil || string(b) != "hello "+name+"\n" {
					t.Errorf("heard %q, %v", b, err)
				}
				cancel()
				<-done
				_ = inW.Close()
			})
		}
	})
}

func TestPortForward(t *testing.T) {
	each(t, func(t *testing.T, n *testNode) {
		u := n.url("/portForward/shop/web", nil)
		rt, up, err := spdy.RoundTripperFor(n.rest)
		if err != nil {
			t.Fatal(err)
		}
		tunnel, err := portforward.NewSPDYOverWebsocketDialer(u, n.rest)
		if err != nil {
			t.Fatal(err)
		}
		dialSPDY := spdy.NewDialer(up, &http.Client{Transport: rt}, http.MethodPost, u)
		t.Run("spdy", func(t *testing.T) {
			stop, ready := make(chan struct{}), make(chan struct{})
			pf, err := portforward.NewOnAddresses(dialSPDY, []string{"127.0.0.1"}, []string{"0:18472", "0:18473"}, stop, ready, io.Discard, io.Discard)
			if err != nil {
				t.Fatal(err)
			}
			forwardAndTalk(t, n, pf, stop, ready)
		})
		t.Run("tunnel", func(t *testing.T) {
			stop, ready := make(chan struct{}), make(chan struct{})
			pf, err := portforward.NewOnAddresses(tunnel, []string{"127.0.0.1"}, []string{"0:18472", "0:18473"}, stop, ready, io.Discard, io.Discard)
			if err != nil {
				t.Fatal(err)
			}
			forwardAndTalk(t, n, pf, stop, ready)
		})
	})
}

func forwardAndTalk(t *testing.T, n *testNode, pf *portforward.PortForwarder, stop, ready chan struct{}) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- pf.ForwardPorts() }()
	select {
	case <-ready:
	case err := <-done:
		t.Fatal(err)
	}
	ports, err := pf.GetPorts()
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", ports[0].Local))
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			text := strings.Repeat(fmt.Sprint(i), 1<<18)
			go func() {
				_, _ = io.WriteString(c, text)
				if n.halfClose {
					_ = c.(*net.TCPConn).CloseWrite()
				}
			}()
			b := make([]byte, len(text))
			if _, err := io.ReadFull(c, b); err != nil || string(b) != text {
				t.Errorf("echo through the tunnel: %v", err)
			}
		})
	}
	wg.Wait()
	close(stop)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestStreamRefusals(t *testing.T) {
	n := newFakeNode(t)
	for _, c := range []struct {
		method, path string
		code         int
		text         string
	}{
		{"POST", "/exec/shop/web/c?command=x", 400, "you must specify at least 1 of stdin, stdout, stderr"},
		{"POST", "/exec/shop/gone/c?command=x&output=1", 404, "pod does not exist"},
		{"POST", "/exec/shop/web/other?command=x&output=1", 500, `container not found ("other")`},
		{"POST", "/exec/shop/web/other-uid/c?command=x&output=1", 500, `container not found ("c")`},
		{"POST", "/attach/shop/gone/c?output=1", 404, "pod does not exist"},
		{"POST", "/portForward/shop/gone", 404, "pod does not exist"},
		{"POST", "/portForward/shop/web/other-uid", 404, "pod not found"},
		{"POST", "/run/shop/web/c?cmd=/writ+exit+3+oh", 500, "command '/writ exit 3 oh' exited with 3: oh\n"},
		{"POST", "/run/shop/web/c?cmd=/writ+flood+3", 200, "000"},
	} {
		code, text := n.ask(t, c.method, c.path)
		if code != c.code || text != c.text {
			t.Errorf("%s %s: %d %q, want %d %q", c.method, c.path, code, text, c.code, c.text)
		}
	}
}

func TestMeasures(t *testing.T) {
	n := newFakeNode(t)
	for path, want := range map[string][]string{
		"/stats/summary":    {`"nodeName":"n1"`, `"podRef":{"name":"web","namespace":"shop","uid":"uid-web"}`, `"workingSetBytes":`, `"rlimit"`},
		"/metrics/resource": {"node_cpu_usage_seconds_total ", `container_memory_working_set_bytes{container="cat",namespace="shop",pod="web"}`, "resource_scrape_error 0"},
		"/metrics":          {`kubelet_running_containers{container_state="running"} 3`, "kubelet_running_pods 1", "process_start_time_seconds"},
		"/runningpods/":     {`"name":"web"`, `"kind":"PodList"`},
		"/configz":          {`{"kubeletconfig":{"kind":"KubeletConfiguration"}}`},
		"/healthz":          {"ok"},
		"/healthz?verbose":  {"[+]ping ok\n[+]well ok\nhealthz check passed\n"},
		"/healthz/well":     {"ok"},
	} {
		code, text := n.ask(t, http.MethodGet, path)
		for _, w := range want {
			if code != http.StatusOK || !strings.Contains(text, w) {
				t.Errorf("GET %s: %d %.400q lacks %q", path, code, text, w)
			}
		}
	}
	if _, text := n.ask(t, http.MethodGet, "/stats/summary?only_cpu_and_memory=true"); strings.Contains(text, "rlimit") {
		t.Errorf("more than processors and memory: %s", text)
	}
	if code, _ := n.ask(t, http.MethodGet, "/logs/syslog"); code != http.StatusMethodNotAllowed {
		t.Errorf("the node's own logs: %d", code)
	}
}

func (n *testNode) ask(t *testing.T, method, path string) (int, string) {
	t.Helper()
	client, err := rest.HTTPClientFor(n.rest)
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), method, n.rest.Host+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(b)
}
