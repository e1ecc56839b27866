package containerd

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	tasks "github.com/containerd/containerd/api/services/tasks/v1"
	"golang.org/x/sys/unix"

	"github.com/writ-os/writ/nodeagent/runtime"
)

// stdinPath is the pipe that a container's input comes from.
func (r *Runtime) stdinPath(id string) string { return filepath.Join(r.containerDir(id), "stdin") }

// Attach joins a running container. What it prints is read from the same files
// as its log, beside the collector: a client that reads slowly holds up neither
// the container nor its log.
func (r *Runtime) Attach(ctx context.Context, id string, a runtime.AttachSpec) error {
	ctx, err := r.await(ctx)
	if err != nil {
		return err
	}
	rec := r.record(id)
	if rec == nil || rec.get().State != runtime.Running {
		return fmt.Errorf("attach to container %s: %w", id, runtime.ErrNotFound)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	tap, err := r.logs.Tap(id, r.containerDir(id), rec.ended())
	if err != nil {
		return fmt.Errorf("attach to container %s: %w", id, err)
	}
	defer tap.Close()
	done := make(chan error, 1)
	go func() { done <- tap.Copy(ctx, a.Stdout, a.Stderr) }()
	input := r.attachInput(ctx, rec, id, a.Stdin)
	for {
		select {
		case err := <-done:
			return err
		case err := <-input:
			if err != nil {
				return err
			}
			if rec.once && !rec.tty {
				input = nil // the container has its input, and may answer
				continue
			}
			cancel()
			<-done
			return nil
		case size, ok := <-a.Resize:
			if !ok {
				a.Resize = nil
				continue
			}
			_, _ = r.client.TaskService().ResizePty(ctx, &tasks.ResizePtyRequest{ // only looks
				ContainerID: id, Width: uint32(size[0]), Height: uint32(size[1]),
			})
		}
	}
}

// attachInput copies to the container's input until the client's ends, and
// says so. Without input there is nothing to wait for: nil.
func (r *Runtime) attachInput(ctx context.Context, rec *record, id string, from io.Reader) chan error {
	if from == nil || !rec.stdin {
		return nil
	}
	out := make(chan error, 1)
	go func() {
		// Not to wait for the shim to open the other end: it has, or is gone.
		f, err := os.OpenFile(r.stdinPath(id), os.O_WRONLY|unix.O_NONBLOCK, 0)
		if err != nil {
			out <- fmt.Errorf("open input of container %s: %w", id, err)
			return
		}
		// A container that does not read must not hold the client for ever.
		stop := context.AfterFunc(ctx, func() { _ = f.Close() })
		_, _ = io.Copy(f, from) // either end has gone
		stop()
		_ = f.Close()
		if rec.once && !rec.tty {
			_, _ = r.client.TaskService().CloseIO(context.WithoutCancel(ctx), &tasks.CloseIORequest{ContainerID: id, Stdin: true}) // it may have ended
		}
		out <- nil
	}()
	return out
}
