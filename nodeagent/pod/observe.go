package pod

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/writ-os/writ/nodeagent/runtime"
)

// observe reads the pod's sandbox and containers from the runtime.
func (w *worker) observe(ctx context.Context) error {
	list, err := w.p.cfg.Runtime.List(ctx, w.uid)
	if err != nil {
		return fmt.Errorf("list containers: %w", err)
	}
	if !w.busy {
		if w.sandbox.Since, err = w.p.cfg.Runtime.Sandbox(ctx, w.uid); err != nil {
			return fmt.Errorf("look at sandbox: %w", err)
		}
	}
	slices.SortFunc(list, func(a, b runtime.Container) int {
		return cmp.Or(cmp.Compare(a.Attempt, b.Attempt), a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	byName := map[string][]runtime.Container{}
	for _, c := range list {
		byName[c.Name] = append(byName[c.Name], c)
	}
	for name, t := range w.containers {
		if len(byName[name]) == 0 {
			w.see(t, nil)
		}
	}
	for name, attempts := range byName {
		w.see(w.tracked(name), attempts)
	}
	return nil
}

func (w *worker) tracked(name string) *tracked {
	t := w.containers[name]
	if t == nil {
		t = &tracked{}
		w.containers[name] = t
	}
	return t
}

// see brings a tracked container in step with its attempts, oldest first.
func (w *worker) see(t *tracked, attempts []runtime.Container) {
	var current, previous *runtime.Container
	if n := len(attempts); n > 0 {
		current = &attempts[n-1]
		if n > 1 {
			previous = &attempts[n-2]
		}
	}
	if previous == nil || t.Previous == nil || previous.ID != t.Previous.ID {
		t.PreviousMessage = ""
		if previous != nil {
			t.PreviousMessage = w.terminationMessage(previous)
		}
	}
	changed := current == nil || t.Current == nil || current.ID != t.Current.ID
	if changed {
		t.endProbes()
		t.Started, t.Ready, t.Unhealthy, t.Message = false, false, "", ""
		if current != nil && t.Op != OpStart {
			w.readopt(t, current) // it runs since before this process
		}
	}
	if current != nil && current.State == runtime.Exited {
		if t.Message == "" {
			t.Message = w.terminationMessage(current)
		}
		t.endProbes()
		t.Started, t.Ready = false, false
		if t.stopping != nil {
			t.stopping.end()
		}
	}
	t.Current, t.Previous = current, previous
}

// readopt gives a container that an earlier process of the agent started the
// state that its status had, so that a restart of the agent changes nothing.
func (w *worker) readopt(t *tracked, c *runtime.Container) {
	t.hooked = true
	cs := find(w.last.ContainerStatuses, c.Name)
	if cs == nil {
		cs = find(w.last.InitContainerStatuses, c.Name)
	}
	if cs == nil || cs.ContainerID != RuntimeName+"://"+c.ID {
		return
	}
	t.Started, t.Ready = cs.Started != nil && *cs.Started, cs.Ready
}
