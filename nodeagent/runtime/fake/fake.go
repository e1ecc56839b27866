// Package fake is a container runtime in memory, for simulated nodes and for
// tests. It keeps real state: sandboxes, containers with their attempts and
// exits, images. Containers run until they are stopped, unless a Behavior says
// otherwise, and honour SIGTERM at once.
package fake

import (
	"context"
	"fmt"
	"io"
	"net"
	"sort"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/writ-os/writ/nodeagent/image"
	"github.com/writ-os/writ/nodeagent/runtime"
)

// Outcome is what a started container does.
type Outcome struct {
	// After is when it ends by itself; 0 means never.
	After    time.Duration
	ExitCode int
	// StartErr makes the start fail.
	StartErr error
	// IgnoreTerm makes it ignore SIGTERM.
	IgnoreTerm bool
}

// Config configures a Runtime. All fields may be zero.
type Config struct {
	// Behavior decides what a container does; nil runs them until stopped.
	Behavior func(runtime.Spec) Outcome
	// Exec answers commands; nil answers 0 to every one.
	Exec func(id string, e runtime.ExecSpec) (int, error)
	// Dial connects to a port of a pod; nil connects to what sends back all that
	// it gets.
	Dial func(uid string, port uint16) (net.Conn, error)
	// Missing images have to be pulled; nil means that all are there.
	Missing func(ref string) bool
	// Pull decides how a pull ends.
	Pull func(ref string, creds []image.Credentials) error
}

// Runtime implements runtime.Runtime and image.Store.
type Runtime struct {
	cfg Config

	mu         sync.Mutex
	next       int
	sandboxes  map[string]sandbox
	containers map[string]*container
	byPod      map[string]map[string]*container
	images     map[string]image.Image
	watchers   map[int]func(runtime.Event)
	failing    map[string]error
}

type sandbox struct {
	spec  runtime.SandboxSpec
	since time.Time
}

type container struct {
	runtime.Container
	spec    runtime.Spec
	outcome Outcome
	timer   *time.Timer
	console *console
}

var (
	_ runtime.Runtime = (*Runtime)(nil)
	_ image.Store     = (*Runtime)(nil)
)

// New returns an empty runtime.
func New(cfg Config) *Runtime {
	return &Runtime{
		cfg:        cfg,
		sandboxes:  map[string]sandbox{},
		containers: map[string]*container{},
		byPod:      map[string]map[string]*container{},
		images:     map[string]image.Image{},
		watchers:   map[int]func(runtime.Event){},
		failing:    map[string]error{},
	}
}

// Fail makes an operation ("Create", "Start", "EnsureSandbox", ...) fail until
// it is called with nil.
func (r *Runtime) Fail(op string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failing[op] = err
}

// Exit ends a running container as if its process had.
func (r *Runtime) Exit(id string, code int) {
	r.mu.Lock()
	c := r.containers[id]
	ended := c != nil && r.end(c, code)
	r.mu.Unlock()
	if ended {
		r.notify(runtime.Event{PodUID: c.PodUID, ID: id})
	}
}

// LoseSandbox drops a pod's sandbox, as a restart of the machine does.
func (r *Runtime) LoseSandbox(uid string) {
	r.mu.Lock()
	delete(r.sandboxes, uid)
	r.mu.Unlock()
	r.notify(runtime.Event{PodUID: uid})
}

// Spec returns what a container was created from.
func (r *Runtime) Spec(id string) (runtime.Spec, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, ok := r.containers[id]
	if !ok {
		return runtime.Spec{}, false
	}
	return c.spec, true
}

// EnsureSandbox implements runtime.Runtime.
func (r *Runtime) EnsureSandbox(_ context.Context, s runtime.SandboxSpec) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.failing["EnsureSandbox"]; err != nil {
		return err
	}
	if _, ok := r.sandboxes[s.PodUID]; !ok {
		r.sandboxes[s.PodUID] = sandbox{s, time.Now()}
	}
	return nil
}

// Sandbox implements runtime.Runtime.
func (r *Runtime) Sandbox(_ context.Context, uid string) (time.Time, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sandboxes[uid].since, r.failing["Sandbox"]
}

// RemoveSandbox implements runtime.Runtime.
func (r *Runtime) RemoveSandbox(_ context.Context, uid string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.failing["RemoveSandbox"]; err != nil {
		return err
	}
	delete(r.sandboxes, uid)
	return nil
}

// Sandboxes implements runtime.Runtime.
func (r *Runtime) Sandboxes(context.Context) ([]string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]string, 0, len(r.sandboxes))
	for uid := range r.sandboxes {
		out = append(out, uid)
	}
	sort.Strings(out)
	return out, nil
}

// Create implements runtime.Runtime.
func (r *Runtime) Create(_ context.Context, s runtime.Spec) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.failing["Create"]; err != nil {
		return "", err
	}
	if _, ok := r.sandboxes[s.PodUID]; !ok {
		return "", fmt.Errorf("create container: pod %s has no sandbox", s.PodUID)
	}
	if img, ok := r.image(s.Image); ok {
		r.images[s.Image] = img
	} else {
		return "", fmt.Errorf("create container: no image %s", s.Image)
	}
	r.next++
	c := &container{spec: s, console: newConsole(), Container: runtime.Container{
		ID:     fmt.Sprintf("%s-%s-%d-%d", s.PodUID, s.Name, s.Attempt, r.next),
		PodUID: s.PodUID, PodNamespace: s.PodNamespace, PodName: s.PodName,
		Name: s.Name, Attempt: s.Attempt, Hash: s.Hash, Backoff: s.Backoff, Grace: s.Grace,
		Image: s.Image, ImageID: r.images[s.Image].ID, LogPath: s.LogPath, TerminatedHost: s.TerminatedHost,
		State: runtime.Created, CreatedAt: time.Now(),
	}}
	r.containers[c.ID] = c
	if r.byPod[s.PodUID] == nil {
		r.byPod[s.PodUID] = map[string]*container{}
	}
	r.byPod[s.PodUID][c.ID] = c
	return c.ID, nil
}

// Start implements runtime.Runtime.
func (r *Runtime) Start(_ context.Context, id string) error {
	r.mu.Lock()
	c := r.containers[id]
	err := r.start(c)
	r.mu.Unlock()
	if c == nil {
		return fmt.Errorf("start container %s: %w", id, runtime.ErrNotFound)
	}
	if err != nil {
		return fmt.Errorf("start container: %w", err)
	}
	r.notify(runtime.Event{PodUID: c.PodUID, ID: id})
	return nil
}

func (r *Runtime) start(c *container) error {
	if c == nil {
		return nil
	}
	if r.cfg.Behavior != nil {
		c.outcome = r.cfg.Behavior(c.spec)
	}
	err := r.failing["Start"]
	if err == nil {
		err = c.outcome.StartErr
	}
	now := time.Now()
	if err != nil {
		c.State, c.FinishedAt, c.ExitCode = runtime.Exited, now, 128
		c.Reason, c.Message = runtime.ReasonStartError, err.Error()
		return err
	}
	r.next++
	c.State, c.StartedAt, c.Pid = runtime.Running, now, 100000+r.next
	if c.outcome.After > 0 {
		id, code := c.ID, c.outcome.ExitCode
		c.timer = time.AfterFunc(c.outcome.After, func() { r.Exit(id, code) })
	}
	return nil
}

// end records an exit; it says whether the container was running.
func (r *Runtime) end(c *container, code int) bool {
	if c.State != runtime.Running {
		return false
	}
	if c.timer != nil {
		c.timer.Stop()
	}
	c.console.end()
	c.State, c.Pid, c.FinishedAt, c.ExitCode, c.Reason = runtime.Exited, 0, time.Now(), code, runtime.ReasonError
	if code == 0 {
		c.Reason = runtime.ReasonCompleted
	}
	return true
}

// Signal implements runtime.Runtime.
func (r *Runtime) Signal(_ context.Context, id string, sig syscall.Signal) error {
	r.mu.Lock()
	c := r.containers[id]
	if err := r.failing["Signal"]; err != nil {
		r.mu.Unlock()
		return err
	}
	ended := false
	switch {
	case c == nil:
	case sig == syscall.SIGKILL:
		ended = r.end(c, 137)
	case sig == syscall.SIGTERM && !c.outcome.IgnoreTerm:
		ended = r.end(c, 143)
	}
	r.mu.Unlock()
	if ended {
		r.notify(runtime.Event{PodUID: c.PodUID, ID: id})
	}
	return nil
}

// Remove implements runtime.Runtime.
func (r *Runtime) Remove(_ context.Context, id string) error {
	r.mu.Lock()
	c := r.containers[id]
	if err := r.failing["Remove"]; err != nil || c == nil {
		r.mu.Unlock()
		return err
	}
	ended := r.end(c, 137)
	delete(r.containers, id)
	delete(r.byPod[c.PodUID], id)
	if len(r.byPod[c.PodUID]) == 0 {
		delete(r.byPod, c.PodUID)
	}
	r.mu.Unlock()
	if ended {
		r.notify(runtime.Event{PodUID: c.PodUID, ID: id})
	}
	return nil
}

// List implements runtime.Runtime.
func (r *Runtime) List(_ context.Context, uid string) ([]runtime.Container, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	from := r.containers
	if uid != "" {
		from = r.byPod[uid]
	}
	out := make([]runtime.Container, 0, len(from))
	for _, c := range from {
		out = append(out, c.Container)
	}
	return out, nil
}

// Watch implements runtime.Runtime.
func (r *Runtime) Watch(ctx context.Context, onReady func(), fn func(runtime.Event)) error {
	r.mu.Lock()
	r.next++
	n := r.next
	r.watchers[n] = fn
	r.mu.Unlock()
	onReady()
	<-ctx.Done()
	r.mu.Lock()
	delete(r.watchers, n)
	r.mu.Unlock()
	return nil
}

func (r *Runtime) notify(e runtime.Event) {
	r.mu.Lock()
	fns := make([]func(runtime.Event), 0, len(r.watchers))
	for _, fn := range r.watchers {
		fns = append(fns, fn)
	}
	r.mu.Unlock()
	for _, fn := range fns {
		fn(e)
	}
}

// Exec implements runtime.Runtime.
func (r *Runtime) Exec(_ context.Context, id string, e runtime.ExecSpec) (int, error) {
	r.mu.Lock()
	c := r.containers[id]
	running := c != nil && c.State == runtime.Running
	r.mu.Unlock()
	if !running {
		return 0, fmt.Errorf("exec in container %s: %w", id, runtime.ErrNotFound)
	}
	if r.cfg.Exec == nil {
		return 0, nil
	}
	return r.cfg.Exec(id, e)
}

// Stats implements runtime.Runtime.
func (r *Runtime) Stats(_ context.Context, id string) (runtime.Stats, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.containers[id]
	if c == nil || c.State != runtime.Running {
		return runtime.Stats{}, fmt.Errorf("measure container %s: %w", id, runtime.ErrNotFound)
	}
	return runtime.Stats{Time: time.Now(), CPU: time.Since(c.StartedAt) / 100, Memory: 8 << 20, WorkingSet: 6 << 20, RSS: 4 << 20, Pids: 1}, nil
}

// Info implements runtime.Runtime.
func (r *Runtime) Info(context.Context) (runtime.Info, error) {
	return runtime.Info{Name: "fake", Version: "1.0"}, nil
}

// image returns an image that is there.
func (r *Runtime) image(ref string) (image.Image, bool) {
	if img, ok := r.images[ref]; ok {
		return img, true
	}
	if r.cfg.Missing != nil && r.cfg.Missing(ref) {
		return image.Image{}, false
	}
	return image.Image{Ref: ref, ID: "sha256:" + strconv.Itoa(len(ref)) + ref, Names: []string{ref}, Size: 1 << 20}, true
}

// Image implements image.Store.
func (r *Runtime) Image(_ context.Context, ref string) (image.Image, bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	img, ok := r.image(ref)
	return img, ok, r.failing["Image"]
}

// Pull implements image.Store.
func (r *Runtime) Pull(_ context.Context, ref string, creds []image.Credentials) (image.Image, error) {
	if r.cfg.Pull != nil {
		if err := r.cfg.Pull(ref, creds); err != nil {
			return image.Image{}, err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	img := image.Image{Ref: ref, ID: ref + "@sha256:0", Names: []string{ref}, Size: 1 << 20}
	r.images[ref] = img
	if len(creds) > 0 {
		img.With = creds[0]
	}
	return img, nil
}

// Import implements image.Store. The archive is read and forgotten.
func (r *Runtime) Import(_ context.Context, rd io.Reader, _ map[string]string) error {
	_, err := io.Copy(io.Discard, rd)
	return err
}

// Images implements image.Store.
func (r *Runtime) Images(context.Context) ([]image.Image, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]image.Image, 0, len(r.images))
	for _, img := range r.images {
		out = append(out, img)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Ref < out[j].Ref })
	return out, nil
}

// RemoveImage implements image.Store.
func (r *Runtime) RemoveImage(_ context.Context, id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for ref, img := range r.images {
		if img.ID == id {
			delete(r.images, ref)
		}
	}
	return nil
}
