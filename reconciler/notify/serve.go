package notify

import (
	"context"
	"time"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/reconciler/report"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// serve sends the messages of a queue, one after another, until ctx is done.
func (n *Notifier) serve(ctx context.Context, repository string, q *queue) {
	s := &sender{fixed: n.cfg.Transport}
	defer s.close()
	log := n.log.With("repository", repository, "notification", q.n.Name)
	for {
		it, wait := q.next(time.Now())
		if it == nil {
			if !q.wait(ctx, wait) {
				return
			}
			continue
		}
		out := n.send(ctx, s, repository, q, &it.Message)
		if ctx.Err() != nil && out.err != nil {
			return // the call was broken off
		}
		switch q.settle(it, out, time.Now()) {
		case arrived:
			n.count(repository, q, "sent")
			log.Debug("notification sent", "commit", it.Commit.Spec.SHA, "phase", it.Mark.Phase)
			if it.With == nil {
				n.note(ctx, q, &it.Message)
			}
		case again:
			n.count(repository, q, "retried")
			if q.failing() == 1 || it.refusals == 1 {
				log.Warn("notification not sent yet", "commit", it.Commit.Spec.SHA, "err", out.err)
			}
		case dropped:
			n.drop(ctx, q, it, out.err)
		}
		n.metrics.queued.WithLabelValues(repository, q.n.Name, q.n.Type).Set(float64(q.len()))
	}
}

func (n *Notifier) count(repository string, q *queue, result string) {
	n.metrics.sent.WithLabelValues(repository, q.n.Name, q.n.Type, result).Inc()
}

// send makes one call, with the Secret as it is now.
func (n *Notifier) send(ctx context.Context, s *sender, repository string, q *queue, m *Message) outcome {
	var from string
	if repo, ok := client.Cached[*v1alpha1.Repository](n.cfg.Client.Cache(), schema.Key{Name: repository}); ok {
		from = repo.Spec.URL
	}
	t, err := readTarget(ctx, n.cfg.Client, &q.n, from)
	if err != nil {
		return outcome{err: err, refused: true}
	}
	t.cluster = n.cfg.Cluster
	if n.cfg.Page != nil {
		t.page = n.cfg.Page(m.about())
	}
	c, err := newCall(m, q.n.Type, t)
	if err != nil {
		return outcome{err: err, refused: true}
	}
	return s.send(ctx, c, t)
}

// How often, and how long after the end of the process has begun, the note of
// what was sent is tried.
const (
	noteTries = 5
	lastNote  = 2 * time.Second
)

// note remembers what a receiver was told, in the Commit. What has been sent
// is noted even when the process is to end.
func (n *Notifier) note(ctx context.Context, q *queue, m *Message) {
	write, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(lastNote, cancel) })()
	var err error
	for i := range noteTries {
		if err = annotate[*v1alpha1.Commit](write, n.cfg.Client, m.Commit.Name, map[string]any{annotation(q.n.Name): m.Mark.String()}); err == nil || ctx.Err() != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause(i+1, firstPause)):
		}
	}
	n.log.Warn("sent notification not noted; a restart sends it again", "notification", q.n.Name, "commit", m.Commit.Spec.SHA, "err", err)
}

// drop gives a message up, and says so where people look.
func (n *Notifier) drop(ctx context.Context, q *queue, it *item, cause error) {
	c := it.Commit
	n.count(c.Spec.Repository, q, "dropped")
	n.log.Warn("notification given up", "repository", c.Spec.Repository, "notification", q.n.Name, "commit", c.Spec.SHA, "phase", it.Mark.Phase, "err", cause)
	text := "notification " + q.n.Name + " (" + string(it.Mark.Phase) + ") given up: " + cause.Error()
	if _, err := client.Create(ctx, n.cfg.Client, report.Event(it.about(), "Warning", "NotificationFailed", text, time.Now()), client.WriteOptions{}); err != nil && ctx.Err() == nil {
		n.log.Debug("event not stored", "err", err)
	}
}
