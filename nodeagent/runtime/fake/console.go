package fake

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"

	"github.com/writ-os/writ/nodeagent/runtime"
)

// console is the terminal of a container whose program sends back what it is
// told, and ends with its input.
type console struct {
	ended chan struct{}
	once  sync.Once

	mu    sync.Mutex
	users map[*runtime.AttachSpec]bool
}

func newConsole() *console {
	return &console{ended: make(chan struct{}), users: map[*runtime.AttachSpec]bool{}}
}

func (c *console) end() { c.once.Do(func() { close(c.ended) }) }

// print writes to all who are attached. One that cannot be written to is left
// out.
func (c *console) print(b []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for a := range c.users {
		if a.Stdout == nil {
			continue
		}
		if _, err := a.Stdout.Write(b); err != nil {
			delete(c.users, a)
		}
	}
}

// Attach implements runtime.Runtime.
func (r *Runtime) Attach(ctx context.Context, id string, a runtime.AttachSpec) error {
	r.mu.Lock()
	c := r.containers[id]
	running := c != nil && c.State == runtime.Running
	r.mu.Unlock()
	if !running {
		return fmt.Errorf("attach to container %s: %w", id, runtime.ErrNotFound)
	}
	t := c.console
	t.mu.Lock()
	t.users[&a] = true
	t.mu.Unlock()
	defer func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.users, &a)
	}()
	var input chan struct{}
	if a.Stdin != nil && c.spec.Stdin {
		input = make(chan struct{})
		go func() {
			defer close(input)
			t.echo(a.Stdin)
		}()
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.ended:
			return nil
		case <-input:
			if c.spec.StdinOnce && !c.spec.TTY {
				input = nil
				r.Exit(id, 0)
				continue
			}
			return nil
		case _, ok := <-a.Resize:
			if !ok {
				a.Resize = nil
			}
		}
	}
}

func (c *console) echo(from io.Reader) {
	buf := make([]byte, 4<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			c.print(buf[:n])
		}
		if err != nil {
			return
		}
	}
}

// Dial implements runtime.Runtime.
func (r *Runtime) Dial(ctx context.Context, uid string, port uint16) (net.Conn, error) {
	r.mu.Lock()
	_, ok := r.sandboxes[uid]
	r.mu.Unlock()
	if !ok {
		return nil, fmt.Errorf("connect to port %d: the pod has no sandbox", port)
	}
	if r.cfg.Dial != nil {
		return r.cfg.Dial(uid, port)
	}
	ours, theirs := net.Pipe()
	go func() {
		defer theirs.Close()
		_, _ = io.Copy(theirs, theirs) // until the client has gone
	}()
	return ours, nil
}

// Update implements runtime.Runtime.
func (r *Runtime) Update(_ context.Context, id string, res runtime.Resources) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.failing["Update"]; err != nil {
		return err
	}
	c := r.containers[id]
	if c == nil || c.State != runtime.Running {
		return fmt.Errorf("update container %s: %w", id, runtime.ErrNotFound)
	}
	c.spec.Resources = res
	return nil
}
