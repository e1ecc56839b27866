package containerd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	apievents "github.com/containerd/containerd/api/events"
	tasks "github.com/containerd/containerd/api/services/tasks/v1"
	"github.com/containerd/containerd/api/types/task"
	"github.com/containerd/containerd/v2/core/events"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/errdefs"
	"github.com/containerd/errdefs/pkg/errgrpc"
	"github.com/containerd/typeurl/v2"

	"github.com/writ-os/writ/nodeagent/runtime"
)

// topicReady is an event that we send ourselves: once it comes back, no later
// event is missed.
const topicReady = "/writ/following"

// follow keeps the records in step with the daemon until ctx ends. When the
// daemon goes away it begins again.
func (r *Runtime) follow(ctx context.Context) error {
	for first := true; ; first = false {
		err := r.followOnce(r.in(ctx), first)
		if ctx.Err() != nil {
			return nil
		}
		if first && !r.isReady() {
			return err
		}
		r.log.Warn("lost containerd, connecting again", "err", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func (r *Runtime) isReady() bool {
	select {
	case <-r.ready:
		return true
	default:
		return false
	}
}

func (r *Runtime) followOnce(ctx context.Context, first bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ch, errs := r.client.EventService().Subscribe(ctx,
		`namespace==`+r.cfg.Namespace+`,topic=="/tasks/exit"`,
		`namespace==`+r.cfg.Namespace+`,topic=="`+topicReady+`"`)
	if err := r.awaitSubscription(ctx, ch, errs); err != nil {
		return err
	}
	if err := r.adopt(ctx); err != nil {
		return err
	}
	if first || !r.isReady() {
		close(r.ready)
	}
	for {
		select {
		case e := <-ch:
			r.exited(ctx, e)
		case err := <-errs:
			return fmt.Errorf("follow containerd: %w", err)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// awaitSubscription sends events until one comes back.
func (r *Runtime) awaitSubscription(ctx context.Context, ch <-chan *events.Envelope, errs <-chan error) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if err := r.client.EventService().Publish(ctx, topicReady, &apievents.TaskStart{}); err != nil {
			return fmt.Errorf("publish to containerd: %w", err)
		}
		select {
		case e := <-ch:
			if e.Topic == topicReady {
				return nil
			}
		case err := <-errs:
			return fmt.Errorf("follow containerd: %w", err)
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// exited handles an exit in a goroutine of its own: it waits for the shim.
func (r *Runtime) exited(ctx context.Context, e *events.Envelope) {
	if e.Topic == topicReady {
		return
	}
	v, err := typeurl.UnmarshalAny(e.Event)
	if err != nil {
		r.log.Warn("decode containerd event", "err", err)
		return
	}
	exit, ok := v.(*apievents.TaskExit)
	if !ok || exit.ID != exit.ContainerID { // an exec
		return
	}
	go func() {
		if err := r.reap(context.WithoutCancel(ctx), exit.ContainerID); err != nil {
			r.log.Warn("record end of container", "container", exit.ContainerID, "err", err)
		}
	}()
}

// adopt reads the containers from the daemon and what their tasks are doing.
func (r *Runtime) adopt(ctx context.Context) error {
	all, err := r.client.ContainerService().List(ctx)
	if err != nil {
		return fmt.Errorf("list containers: %w", err)
	}
	resp, err := r.client.TaskService().List(ctx, &tasks.ListTasksRequest{})
	if err != nil {
		return fmt.Errorf("list tasks: %w", errgrpc.ToNative(err))
	}
	running := map[string]*task.Process{}
	for _, p := range resp.Tasks {
		running[p.ID] = p
	}
	known := map[string]bool{}
	for _, c := range all {
		if c.Labels[labelPodUID] == "" {
			continue
		}
		known[c.ID] = true
		rec := r.record(c.ID)
		if rec == nil {
			rec = recordOf(c)
			if err := r.restore(rec); err != nil {
				// It is as one that never started; the next attempt is made anew.
				r.log.Warn("restore container", "container", c.ID, "err", err)
			}
			r.mu.Lock()
			r.containers[c.ID] = rec
			r.mu.Unlock()
		}
		// One container in a bad state must not take the node away from all.
		if err := r.adoptOne(ctx, rec, running[c.ID]); err != nil {
			if ctx.Err() != nil {
				return err
			}
			r.log.Warn("adopt container", "container", c.ID, "pod", rec.get().PodNamespace+"/"+rec.get().PodName, "err", err)
		}
	}
	if err := r.removeOrphans(ctx, known); err != nil {
		if ctx.Err() != nil {
			return err
		}
		r.log.Warn("remove what is of no container", "err", err)
	}
	return r.forgetOthers(known)
}

// removeOrphans removes file systems of containers that were never recorded: an
// agent was killed while it made them.
func (r *Runtime) removeOrphans(ctx context.Context, known map[string]bool) error {
	snap := r.client.SnapshotService(r.snapshotter)
	var orphans []string
	err := snap.Walk(ctx, func(_ context.Context, i snapshots.Info) error {
		if i.Kind == snapshots.KindActive && len(i.Name) == 2*idBytes && !known[i.Name] && r.record(i.Name) == nil {
			orphans = append(orphans, i.Name)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("list file systems of containers: %w", err)
	}
	for _, name := range orphans {
		if err := snap.Remove(ctx, name); err != nil && !errdefs.IsNotFound(err) {
			return fmt.Errorf("remove file system of no container: %w", err)
		}
	}
	return nil
}

func (r *Runtime) restore(rec *record) error {
	f, err := r.loadFacts(rec.c.ID)
	if err != nil {
		return err
	}
	rec.c.StartedAt, rec.c.FinishedAt = f.StartedAt, f.FinishedAt
	rec.c.ExitCode, rec.c.Reason, rec.c.Message = f.ExitCode, f.Reason, f.Message
	switch {
	case !f.FinishedAt.IsZero():
		rec.c.State = runtime.Exited
	case !f.StartedAt.IsZero():
		rec.c.State = runtime.Running
	}
	return nil
}

// adoptOne brings a record in step with its task.
func (r *Runtime) adoptOne(ctx context.Context, rec *record, p *task.Process) error {
	c := rec.get()
	if c.State == runtime.Exited {
		return nil
	}
	if c.State == runtime.Created && p != nil && p.Status != task.Status_CREATED {
		// We were killed between starting it and noting so.
		c = rec.set(func(c *runtime.Container) { c.State, c.StartedAt = runtime.Running, time.Now() })
		if err := r.saveFacts(c); err != nil {
			return err
		}
	}
	if c.State == runtime.Created {
		return nil
	}
	if c.LogPath != "" && exists(filepath.Join(r.containerDir(c.ID), "stdout")) {
		if err := r.logs.Follow(c.ID, r.containerDir(c.ID), c.LogPath); err != nil {
			return err
		}
	}
	if p == nil || p.Status == task.Status_STOPPED {
		return r.reap(ctx, c.ID)
	}
	rec.set(func(c *runtime.Container) { c.Pid = int(p.Pid) })
	return nil
}

// forgetOthers drops records and directories of containers that the daemon
// does not have.
func (r *Runtime) forgetOthers(known map[string]bool) error {
	r.mu.Lock()
	for id, rec := range r.containers {
		if !known[id] {
			rec.finish(lost) // who is attached to it must not wait for ever
			delete(r.containers, id)
		}
	}
	r.mu.Unlock()
	entries, err := os.ReadDir(filepath.Join(r.cfg.DataDir, "containers"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("list containers' directories: %w", err)
	}
	for _, e := range entries {
		if !known[e.Name()] {
			if err := os.RemoveAll(r.containerDir(e.Name())); err != nil {
				r.log.Warn("remove directory of a container that is gone", "container", e.Name(), "err", err)
			}
		}
	}
	return nil
}

// Watch calls fn after every start and exit.
func (r *Runtime) Watch(ctx context.Context, onReady func(), fn func(runtime.Event)) error {
	if _, err := r.await(ctx); err != nil {
		return err
	}
	r.mu.Lock()
	n := r.nextWatch
	r.nextWatch++
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
