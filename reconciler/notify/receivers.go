package notify

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// receivers starts and stops queues so that there is one for each notification
// that a repository declares.
func (n *Notifier) receivers(ctx context.Context, repository string, all []*v1alpha1.Commit) {
	declared := map[string]v1alpha1.Notification{}
	repo, ok := client.Cached[*v1alpha1.Repository](n.cfg.Client.Cache(), schema.Key{Name: repository})
	if ok {
		for _, d := range repo.Spec.Notifications[:min(len(repo.Spec.Notifications), maxNotifications)] {
			if _, twice := declared[d.Name]; twice {
				n.log.Warn("notification not heeded: another has its name", "repository", repository, "notification", d.Name)
				continue
			}
			declared[d.Name] = d
		}
	}
	running := n.queues[repository]
	for name, q := range running {
		if d, ok := declared[name]; !ok || !reflect.DeepEqual(d, q.n) {
			n.stop(repository, q)
			delete(running, name)
		}
	}
	if !ok || len(declared) == 0 {
		delete(n.queues, repository)
	}
	if !ok {
		return
	}
	notes := map[string]any{}
	for _, key := range left(repo, repo.Spec.Notifications) {
		notes[key] = nil
	}
	var mine []*v1alpha1.Commit
	for _, c := range all {
		if c.Spec.Repository == repository {
			mine = append(mine, c)
		}
	}
	for name, d := range declared {
		if n.queues[repository][name] != nil {
			continue
		}
		since, known := sinceOf(repo, name)
		if !known || since > time.Now().UnixMicro() { // the clock was wrong
			since = begin(mine)
			notes[annotation(name)] = fmt.Sprint(since)
		}
		n.start(ctx, repository, newQueue(d, since))
	}
	if len(notes) == 0 {
		return
	}
	if err := annotate[*v1alpha1.Repository](ctx, n.cfg.Client, repository, notes); err != nil && ctx.Err() == nil {
		n.log.Warn("begin of notifications not noted", "repository", repository, "err", err)
	}
}

func (n *Notifier) start(ctx context.Context, repository string, q *queue) {
	if n.queues[repository] == nil {
		n.queues[repository] = map[string]*queue{}
	}
	n.queues[repository][q.n.Name] = q
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	q.stop = func() { cancel(); <-done }
	go func() { defer close(done); n.serve(ctx, repository, q) }()
}

// stop ends a queue. What waits in it is decided anew for the one that comes
// after.
func (n *Notifier) stop(repository string, q *queue) {
	q.stop()
	for _, h := range n.handled {
		if h.repository == repository {
			delete(h.told, q.n.Name)
		}
	}
	n.metrics.queued.DeleteLabelValues(repository, q.n.Name, q.n.Type)
}

func (n *Notifier) stopAll() {
	for repository, queues := range n.queues {
		for _, q := range queues {
			n.stop(repository, q)
		}
	}
}
