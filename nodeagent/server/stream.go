package server

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	"k8s.io/streaming/pkg/httpstream/wsstream"
	utilexec "k8s.io/utils/exec"

	"github.com/writ-os/writ/nodeagent/runtime"
)

// Streams reach into running containers and pods; a runtime.Runtime does.
type Streams interface {
	Exec(ctx context.Context, id string, e runtime.ExecSpec) (int, error)
	Attach(ctx context.Context, id string, a runtime.AttachSpec) error
	Dial(ctx context.Context, podUID string, port uint16) (net.Conn, error)
}

// Timeouts of streams, as upstream's.
const (
	idleTimeout   = 4 * time.Hour
	createTimeout = remotecommand.DefaultStreamCreationTimeout
)

// exec answers /exec/{namespace}/{pod}[/{uid}]/{container}: a command with its
// streams, over SPDY or WebSocket.
func (s *Server) exec(w http.ResponseWriter, r *http.Request) {
	opts, err := streamOptions(r)
	if err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	c, ok := s.find(w, r)
	if !ok {
		return
	}
	c.opts, c.command = *opts, r.URL.Query()["command"]
	w, release := s.hold(w, r)
	defer release()
	if wsstream.IsWebSocketRequestWithStreamCloseProtocol(r) {
		serveV5(w, r, *opts, func(st v5Streams) error {
			return c.ExecInContainer(r.Context(), "", "", "", c.command, st.in, st.out, st.err, opts.TTY, st.resize, 0)
		}, "error executing command in container: %v")
		return
	}
	remotecommand.ServeExec(w, r, c, c.pod.Name, string(c.pod.UID), c.name, c.command, opts, idleTimeout, createTimeout, remotecommand.SupportedStreamingProtocols)
}

// attach answers /attach/{namespace}/{pod}[/{uid}]/{container}.
func (s *Server) attach(w http.ResponseWriter, r *http.Request) {
	opts, err := streamOptions(r)
	if err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	c, ok := s.find(w, r)
	if !ok {
		return
	}
	// Whether there is a terminal was decided when the container was made.
	opts.TTY = ttyOf(c.pod, c.name)
	opts.Stderr = opts.Stderr && !opts.TTY
	c.opts = *opts
	w, release := s.hold(w, r)
	defer release()
	if wsstream.IsWebSocketRequestWithStreamCloseProtocol(r) {
		serveV5(w, r, *opts, func(st v5Streams) error {
			return c.AttachContainer(r.Context(), "", "", "", st.in, st.out, st.err, opts.TTY, st.resize)
		}, "error attaching to container: %v")
		return
	}
	remotecommand.ServeAttach(w, r, c, c.pod.Name, string(c.pod.UID), c.name, opts, idleTimeout, createTimeout, remotecommand.SupportedStreamingProtocols)
}

// run answers POST /run/{namespace}/{pod}[/{uid}]/{container}?cmd=: a command
// without input, whose output is the answer.
func (s *Server) run(w http.ResponseWriter, r *http.Request) {
	c, ok := s.find(w, r)
	if !ok {
		return
	}
	out := &limited{}
	command := strings.Split(r.URL.Query().Get("cmd"), " ")
	code, err := s.cfg.Streams.Exec(r.Context(), c.id, runtime.ExecSpec{Command: command, Stdout: out, Stderr: out})
	if err == nil && code != 0 {
		err = fmt.Errorf("command '%s' exited with %d: %s", strings.Join(command, " "), code, out.b)
	}
	if err != nil {
		refuse(w, http.StatusInternalServerError, err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(out.b) // the client is gone
}

// limited keeps the first 16 MiB, as upstream's runtimes do.
type limited struct{ b []byte }

func (l *limited) Write(b []byte) (int, error) {
	l.b = append(l.b, b[:min(len(b), 16<<20-len(l.b))]...)
	return len(b), nil
}

// streamOptions reads which streams a client wants. Beside the kubelet's names
// (input, output, error) those of the API are understood.
func streamOptions(r *http.Request) (*remotecommand.Options, error) {
	q := r.URL.Query()
	for kubelet, api := range map[string]string{"input": "stdin", "output": "stdout", "error": "stderr", "tty": "tty"} {
		if v := q.Get(api); v == "true" || v == "1" {
			q.Set(kubelet, "1")
		}
	}
	clone := r.Clone(r.Context())
	clone.URL.RawQuery, clone.Form, clone.Body = q.Encode(), nil, nil
	return remotecommand.NewOptions(clone)
}

// container is one that is reached into.
type container struct {
	streams Streams
	pod     *corev1.Pod
	name    string
	id      string // of the runtime
	opts    remotecommand.Options
	command []string
}

var (
	_ remotecommand.Executor = (*container)(nil)
	_ remotecommand.Attacher = (*container)(nil)
)

// find finds the running container that a request is about, or refuses.
func (s *Server) find(w http.ResponseWriter, r *http.Request) (*container, bool) {
	pod, ok := s.cfg.Pods.Get(r.PathValue("namespace"), r.PathValue("pod"))
	if !ok {
		refuse(w, http.StatusNotFound, "pod does not exist")
		return nil, false
	}
	name := r.PathValue("container")
	st, ok := statusOf(pod, name)
	_, id, _ := strings.Cut(st.ContainerID, "://")
	if uid := r.PathValue("uid"); !ok || id == "" || uid != "" && uid != string(pod.UID) || s.cfg.Streams == nil {
		refuse(w, http.StatusInternalServerError, fmt.Sprintf("container not found (%q)", name))
		return nil, false
	}
	if st.State.Running == nil {
		refuse(w, http.StatusInternalServerError, "container is in CONTAINER_EXITED state")
		return nil, false
	}
	return &container{streams: s.cfg.Streams, pod: pod, name: name, id: id}, true
}

// ExecInContainer implements remotecommand.Executor. An exit that is not 0 is
// an error that carries it.
func (c *container) ExecInContainer(ctx context.Context, _, _, _ string, command []string, in io.Reader, out, errOut io.WriteCloser,
	tty bool, resize <-chan remotecommand.TerminalSize, _ time.Duration,
) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	e := runtime.ExecSpec{Command: command, TTY: tty, Resize: sizes(ctx, resize)}
	if c.opts.Stdin {
		e.Stdin = in
	}
	e.Stdout, e.Stderr = c.writers(out, errOut)
	code, err := c.streams.Exec(ctx, c.id, e)
	finish(out, errOut)
	if err != nil {
		return err
	}
	if code != 0 {
		return &utilexec.CodeExitError{Code: code, Err: fmt.Errorf("error executing command %v, exit code %d", command, code)}
	}
	return nil
}

// AttachContainer implements remotecommand.Attacher.
func (c *container) AttachContainer(ctx context.Context, _, _, _ string, in io.Reader, out, errOut io.WriteCloser,
	_ bool, resize <-chan remotecommand.TerminalSize,
) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	a := runtime.AttachSpec{Resize: sizes(ctx, resize)}
	if c.opts.Stdin {
		a.Stdin = in
	}
	a.Stdout, a.Stderr = c.writers(out, errOut)
	err := c.streams.Attach(ctx, c.id, a)
	finish(out, errOut)
	return err
}

// writers leaves out what was not asked for: a WebSocket has all its channels.
func (c *container) writers(out, errOut io.WriteCloser) (stdout, stderr io.Writer) {
	if c.opts.Stdout && out != nil {
		stdout = out
	}
	if c.opts.Stderr && errOut != nil {
		stderr = errOut
	}
	return stdout, stderr
}

// finish ends output, so that a client has all of it before the connection
// closes.
func finish(streams ...io.WriteCloser) {
	for _, st := range streams {
		if st != nil {
			_ = st.Close() // the client has gone
		}
	}
}

// sizes passes terminal sizes on until ctx ends.
func sizes(ctx context.Context, in <-chan remotecommand.TerminalSize) <-chan [2]uint16 {
	if in == nil {
		return nil
	}
	out := make(chan [2]uint16)
	go func() {
		defer close(out)
		for {
			select {
			case <-ctx.Done():
				return
			case size, ok := <-in:
				if !ok {
					return
				}
				select {
				case out <- [2]uint16{size.Width, size.Height}:
				case <-ctx.Done():
					return
				}
			}
		}
	}()
	return out
}

// ttyOf says whether a container was made with a terminal.
func ttyOf(pod *corev1.Pod, name string) bool {
	for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range list {
			if list[i].Name == name {
				return list[i].TTY
			}
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		if c := &pod.Spec.EphemeralContainers[i]; c.Name == name {
			return c.TTY
		}
	}
	return false
}

// refuse answers with an error, as upstream's kubelet does: the text alone.
func refuse(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, text) // the client is gone
}
