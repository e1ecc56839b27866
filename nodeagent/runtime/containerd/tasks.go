package containerd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	tasks "github.com/containerd/containerd/api/services/tasks/v1"
	"github.com/containerd/containerd/api/types"
	"github.com/containerd/containerd/api/types/task"
	"github.com/containerd/errdefs"
	"github.com/containerd/errdefs/pkg/errgrpc"

	"github.com/writ-os/writ/nodeagent/crilog"
	"github.com/writ-os/writ/nodeagent/runtime"
)

func (r *Runtime) record(id string) *record {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.containers[id]
}

// Start runs a created container. One that cannot be started has ended with
// StartError.
func (r *Runtime) Start(ctx context.Context, id string) error {
	ctx, err := r.await(ctx)
	if err != nil {
		return err
	}
	rec := r.record(id)
	if rec == nil {
		return fmt.Errorf("start container %s: %w", id, runtime.ErrNotFound)
	}
	rec.act.Lock()
	defer rec.act.Unlock()
	c := rec.get()
	if c.LogPath != "" {
		if err := r.logs.Follow(id, r.containerDir(id), c.LogPath); err != nil {
			return err
		}
	}
	pid, err := r.startTask(ctx, rec, c)
	now := time.Now()
	if err != nil {
		r.undoTask(ctx, id)
		c = rec.finish(func(c *runtime.Container) {
			c.StartedAt, c.FinishedAt = time.Time{}, now
			c.ExitCode, c.Reason, c.Message = startErrorCode(err), runtime.ReasonStartError, err.Error()
		})
		return errors.Join(fmt.Errorf("start container: %w", err), r.saveFacts(c))
	}
	c = rec.set(func(c *runtime.Container) { c.State, c.StartedAt, c.Pid = runtime.Running, now, pid })
	if err := r.saveFacts(c); err != nil {
		return err
	}
	r.notify(runtime.Event{PodUID: c.PodUID, ID: id})
	return nil
}

func (r *Runtime) startTask(ctx context.Context, rec *record, c runtime.Container) (int, error) {
	mounts, err := r.client.SnapshotService(r.snapshotter).Mounts(ctx, c.ID)
	if err != nil {
		return 0, fmt.Errorf("find file system: %w", err)
	}
	req := &tasks.CreateTaskRequest{ContainerID: c.ID, Terminal: rec.tty}
	if c.LogPath != "" {
		req.Stdout, req.Stderr = crilog.RawPaths(r.containerDir(c.ID))
		if rec.tty {
			req.Stderr = ""
		}
	}
	if rec.stdin {
		req.Stdin = r.stdinPath(c.ID)
	}
	for _, m := range mounts {
		req.Rootfs = append(req.Rootfs, &types.Mount{Type: m.Type, Source: m.Source, Target: m.Target, Options: m.Options})
	}
	if _, err := r.client.TaskService().Create(ctx, req); err != nil {
		return 0, errgrpc.ToNative(err)
	}
	resp, err := r.client.TaskService().Start(ctx, &tasks.StartRequest{ContainerID: c.ID})
	if err != nil {
		return 0, errgrpc.ToNative(err)
	}
	return int(resp.Pid), nil
}

// undoTask removes what there is of a task that was not started: also when it
// was not because nobody waits for it any more.
func (r *Runtime) undoTask(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	_, err := r.client.TaskService().Delete(ctx, &tasks.DeleteTaskRequest{ContainerID: id})
	if err == nil || errdefs.IsNotFound(errgrpc.ToNative(err)) {
		return
	}
	// It runs after all: the start was given up while the daemon was at it.
	_, _ = r.client.TaskService().Kill(ctx, &tasks.KillRequest{ContainerID: id, Signal: uint32(syscall.SIGKILL), All: true})
	_, _ = r.client.TaskService().Wait(ctx, &tasks.WaitRequest{ContainerID: id})
	_, _ = r.client.TaskService().Delete(ctx, &tasks.DeleteTaskRequest{ContainerID: id}) // the orphan goes with its record
}

// startErrorCode is the exit code that upstream shows for a process that could
// not be started: 127 where its file is missing, otherwise 128.
func startErrorCode(err error) int {
	if strings.Contains(err.Error(), "executable file not found") || strings.Contains(err.Error(), "no such file or directory") {
		return 127
	}
	return 128
}

// Signal sends a signal. SIGKILL goes to every process of the container.
func (r *Runtime) Signal(ctx context.Context, id string, sig syscall.Signal) error {
	ctx, err := r.await(ctx)
	if err != nil {
		return err
	}
	if rec := r.record(id); rec == nil || rec.get().State != runtime.Running {
		return nil
	}
	_, err = r.client.TaskService().Kill(ctx, &tasks.KillRequest{ContainerID: id, Signal: uint32(sig), All: sig == syscall.SIGKILL})
	err = errgrpc.ToNative(err)
	if err == nil || ending(err) {
		return nil
	}
	return fmt.Errorf("signal container %s: %w", id, err)
}

// ending says whether an error means that a container has ended or is about
// to: its task is gone, runc finds no process, or the shim closes its socket.
func ending(err error) bool {
	return errdefs.IsNotFound(err) || strings.Contains(err.Error(), "already finished") || strings.Contains(err.Error(), "ttrpc: closed")
}

// Remove deletes a container, killing it first, with its output. Its log file
// stays: it belongs to the pod.
func (r *Runtime) Remove(ctx context.Context, id string) error {
	ctx, err := r.await(ctx)
	if err != nil {
		return err
	}
	rec := r.record(id)
	if rec == nil {
		return nil
	}
	if rec.get().State == runtime.Running {
		if err := r.kill(ctx, id); err != nil {
			return err
		}
	}
	rec.act.Lock()
	defer rec.act.Unlock()
	if err := r.logs.Drain(id); err != nil {
		r.log.Warn("copy last output of container", "container", id, "err", err)
	}
	r.logs.Forget(id)
	_, err = r.client.TaskService().Delete(ctx, &tasks.DeleteTaskRequest{ContainerID: id})
	if err := errgrpc.ToNative(err); err != nil && !ending(err) {
		return fmt.Errorf("remove container %s: %w", id, err)
	}
	if err := r.client.ContainerService().Delete(ctx, id); err != nil && !errdefs.IsNotFound(err) {
		return fmt.Errorf("remove container %s: %w", id, err)
	}
	if err := r.client.SnapshotService(r.snapshotter).Remove(ctx, id); err != nil && !errdefs.IsNotFound(err) {
		return fmt.Errorf("remove file system of container %s: %w", id, err)
	}
	r.mu.Lock()
	delete(r.containers, id)
	r.mu.Unlock()
	if err := os.RemoveAll(r.containerDir(id)); err != nil {
		return fmt.Errorf("remove container %s: %w", id, err)
	}
	return nil
}

// kill ends a container and waits until its exit was seen.
func (r *Runtime) kill(ctx context.Context, id string) error {
	if err := r.Signal(ctx, id, syscall.SIGKILL); err != nil {
		return err
	}
	_, err := r.client.TaskService().Wait(ctx, &tasks.WaitRequest{ContainerID: id})
	if err := errgrpc.ToNative(err); err != nil && !ending(err) {
		return fmt.Errorf("wait for container %s: %w", id, err)
	}
	return r.reap(ctx, id)
}

// reap records the end of a container whose process has ended: its exit, its
// last output; then lets its shim go.
func (r *Runtime) reap(ctx context.Context, id string) error {
	rec := r.record(id)
	if rec == nil {
		return nil
	}
	rec.act.Lock()
	defer rec.act.Unlock()
	c := rec.get()
	if c.State != runtime.Running {
		return nil
	}
	resp, err := r.task(ctx, id)
	switch {
	case errdefs.IsNotFound(err):
		return r.ended(rec, lost)
	case err != nil:
		return fmt.Errorf("read state of container %s: %w", id, err)
	case resp.Process.Status != task.Status_STOPPED:
		return nil
	}
	killed := r.cfg.Cgroups != nil && r.cfg.Cgroups.OOMKills(rec.cgroup) > 0
	// Deleting the task waits until the shim has written all output.
	if _, err := r.client.TaskService().Delete(ctx, &tasks.DeleteTaskRequest{ContainerID: id}); err != nil {
		if err := errgrpc.ToNative(err); !ending(err) {
			return fmt.Errorf("delete task of container %s: %w", id, err)
		}
	}
	// A full disk must not hold the pod: what cannot be copied now stays in the
	// raw files, and is tried again when the container is removed.
	if err := r.logs.Drain(id); err != nil {
		r.log.Warn("copy last output of container", "container", id, "err", err)
	}
	return r.ended(rec, func(c *runtime.Container) {
		c.ExitCode = int(resp.Process.ExitStatus)
		c.FinishedAt = resp.Process.ExitedAt.AsTime()
		switch {
		case killed && c.ExitCode == 137:
			c.Reason = runtime.ReasonOOMKilled
		case c.ExitCode == 0:
			c.Reason = runtime.ReasonCompleted
		default:
			c.Reason = runtime.ReasonError
		}
	})
}

// task asks for a task. A shim that is closing gives no answer; the daemon
// notices soon that it is gone.
func (r *Runtime) task(ctx context.Context, id string) (*tasks.GetResponse, error) {
	for tries := 0; ; tries++ {
		resp, err := r.client.TaskService().Get(ctx, &tasks.GetRequest{ContainerID: id})
		err = errgrpc.ToNative(err)
		if err == nil || errdefs.IsNotFound(err) || !ending(err) || tries == 40 {
			return resp, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// lost is the end of a container that nobody saw: the machine has restarted,
// or someone removed its task.
func lost(c *runtime.Container) {
	c.ExitCode, c.FinishedAt, c.Reason = 137, time.Now(), runtime.ReasonUnknown
	c.Message = "The container could not be located when the pod was terminated"
}

func (r *Runtime) ended(rec *record, how func(c *runtime.Container)) error {
	c := rec.finish(how)
	// The pod goes on whether or not it could be noted: without the note the next
	// agent finds that the container has ended, not how.
	err := r.saveFacts(c)
	e := runtime.Event{PodUID: c.PodUID, ID: c.ID}
	if rec.pause {
		e.ID = ""
	}
	r.notify(e)
	return err
}

// List returns the containers of a pod, or all. Pause containers are the
// sandbox's own.
func (r *Runtime) List(ctx context.Context, uid string) ([]runtime.Container, error) {
	if _, err := r.await(ctx); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []runtime.Container
	for _, rec := range r.containers {
		if c := rec.get(); !rec.pause && (uid == "" || c.PodUID == uid) {
			out = append(out, c)
		}
	}
	return out, nil
}
