package containerd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	ctrd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/pkg/cio"
	"github.com/containerd/errdefs"

	"github.com/writ-os/writ/nodeagent/runtime"
)

// Exec runs a command in a container with the container's own user,
// environment and directory.
func (r *Runtime) Exec(ctx context.Context, id string, e runtime.ExecSpec) (int, error) {
	ctx, err := r.await(ctx)
	if err != nil {
		return 0, err
	}
	c, err := r.client.LoadContainer(ctx, id)
	if errdefs.IsNotFound(err) {
		return 0, fmt.Errorf("exec in container %s: %w", id, runtime.ErrNotFound)
	}
	if err != nil {
		return 0, fmt.Errorf("exec in container %s: %w", id, err)
	}
	spec, err := c.Spec(ctx)
	if err != nil {
		return 0, fmt.Errorf("exec in container %s: %w", id, err)
	}
	task, err := c.Task(ctx, nil)
	if err != nil {
		return 0, fmt.Errorf("exec in container %s: %w", id, err)
	}
	p := *spec.Process
	p.Args, p.Terminal = e.Command, e.TTY
	if e.TTY {
		p.Env = append(slices.Clone(p.Env), "TERM=xterm")
	}
	// Callers may hand in one writer for both streams.
	out := &output{}
	in := &input{r: e.Stdin, done: make(chan struct{})}
	streams := []io.Writer{locked{out, e.Stdout}, locked{out, e.Stderr}}
	opts := []cio.Opt{cio.WithStreams(nil, streams[0], streams[1]), cio.WithFIFODir(r.containerDir(id))}
	if e.Stdin != nil {
		opts[0] = cio.WithStreams(in, streams[0], streams[1])
	}
	if e.TTY {
		opts = append(opts, cio.WithTerminal)
	}
	proc, err := task.Exec(ctx, newID()[:32], &p, cio.NewCreator(opts...))
	if err != nil {
		return 0, fmt.Errorf("exec in container %s: %w", id, err)
	}
	return r.runProcess(ctx, proc, e, in, out)
}

// input notes the end of what is read through it. The shim holds the pipe to a
// process open so that others can write to it later: the end has to be told.
type input struct {
	r    io.Reader
	once sync.Once
	done chan struct{}
}

func (i *input) Read(b []byte) (int, error) {
	n, err := i.r.Read(b)
	if err != nil {
		i.once.Do(func() { close(i.done) })
	}
	return n, err
}

// outputIdle is how long the output of a command that has ended may bring
// nothing new before it is cut off.
const outputIdle = 10 * time.Second

// awaitOutput waits for the output of a command that has ended. A process that
// it left behind may hold the pipes for ever: what does not move for outputIdle
// is given up, and so is all when ctx ends. count counts what has moved.
func awaitOutput(ctx context.Context, wait func(), count func() uint64) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		wait()
	}()
	for have := count(); ; {
		idle := time.NewTimer(outputIdle)
		select {
		case <-done:
			idle.Stop()
			return nil
		case <-ctx.Done():
			idle.Stop()
			return ctx.Err()
		case <-idle.C:
		}
		now := count()
		if now == have {
			return fmt.Errorf("nothing more came for %s", outputIdle)
		}
		have = now
	}
}

// output is where both streams of a command go.
type output struct {
	mu    sync.Mutex
	moves atomic.Uint64 // writes begun and ended
}

func (o *output) count() uint64 { return o.moves.Load() }

// locked writes to what others write to as well. Nothing is written to nil.
type locked struct {
	*output
	w io.Writer
}

func (l locked) Write(b []byte) (int, error) {
	if l.w == nil {
		return len(b), nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.moves.Add(1)
	defer l.moves.Add(1)
	if _, err := l.w.Write(b); err != nil {
		// Whoever read it has gone. The command goes on, as with upstream's
		// runtimes, and must not stall on a pipe that nobody empties.
		return len(b), nil
	}
	return len(b), nil
}

// runProcess runs it to its end. When ctx ends before, it is killed.
func (r *Runtime) runProcess(ctx context.Context, proc ctrd.Process, e runtime.ExecSpec, in *input, out *output) (int, error) {
	clean := context.WithoutCancel(ctx)
	defer func() {
		ctx, cancel := context.WithTimeout(clean, 10*time.Second)
		defer cancel()
		_, _ = proc.Delete(ctx, ctrd.WithProcessKill) // the container may be gone
	}()
	exit, err := proc.Wait(clean)
	if err != nil {
		return 0, fmt.Errorf("wait for exec: %w", err)
	}
	if err := proc.Start(ctx); err != nil {
		return 0, fmt.Errorf("start exec: %w", err)
	}
	ended := in.done
	for {
		select {
		case s := <-exit:
			if err := awaitOutput(ctx, proc.IO().Wait, out.count); err != nil {
				r.log.Info("output of a command is cut off: something that it left behind holds it open", "err", err)
				proc.IO().Cancel()
			}
			if s.Error() != nil {
				return 0, fmt.Errorf("wait for exec: %w", s.Error())
			}
			return int(s.ExitCode()), nil
		case size, ok := <-e.Resize:
			if !ok {
				e.Resize = nil
				if e.TTY {
					_ = proc.Kill(clean, syscall.SIGHUP) // it may have ended
				}
				continue
			}
			_ = proc.Resize(ctx, uint32(size[0]), uint32(size[1])) // only looks
		case <-ended:
			ended = nil
			if !e.TTY { // a terminal has no end of input
				_ = closeInput(clean, proc) // it may have ended
			}
		case <-ctx.Done():
			err := proc.Kill(clean, syscall.SIGKILL)
			if err != nil && !errdefs.IsNotFound(err) {
				return 0, errors.Join(ctx.Err(), err)
			}
			return 0, ctx.Err()
		}
	}
}

// closeInput ends the input of a process, when what was written has arrived:
// the shim reads the pipe to its end once it lets go of it itself.
func closeInput(ctx context.Context, proc ctrd.Process) error {
	return proc.CloseIO(ctx, ctrd.WithStdinCloser)
}

// Stats measures a container by its control group.
func (r *Runtime) Stats(ctx context.Context, id string) (runtime.Stats, error) {
	rec := r.record(id)
	if rec == nil || r.cfg.Cgroups == nil {
		return runtime.Stats{}, fmt.Errorf("measure container %s: %w", id, runtime.ErrNotFound)
	}
	u, err := r.cfg.Cgroups.Usage(rec.cgroup)
	if err != nil {
		return runtime.Stats{}, err
	}
	return runtime.Stats{Time: time.Now(), CPU: u.CPU, Memory: u.Memory, WorkingSet: u.WorkingSet, RSS: u.RSS, Pids: u.Pids}, nil
}
