package notify

import (
	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/reconciler/report"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// maxAlso is how many commits that came in with another are told of.
const maxAlso = 20

// also are the messages for commits that came in with one that has ended. They
// go before it: once it is noted as told, so are they.
func (n *Notifier) also(m *Message, q *queue) []Message {
	if n.cfg.Between == nil || !isForge(q.n.Type) || !final(m.Mark.Phase) {
		return nil
	}
	var before *v1alpha1.Commit
	for _, c := range client.CachedList[*v1alpha1.Commit](n.cfg.Client.Cache(), "") {
		if c.Spec.Repository == m.Commit.Spec.Repository && seen(c) < m.Mark.Seen && (before == nil || seen(c) > seen(before)) {
			before = c
		}
	}
	if before == nil {
		return nil
	}
	all, err := n.cfg.Between(m.Commit.Spec.Repository, before.Spec.SHA, m.Commit.Spec.SHA)
	if err != nil {
		n.log.Warn("commits that came in together not read", "commit", m.Commit.Spec.SHA, "err", err)
		return nil
	}
	var out []Message
	for _, sha := range all[:min(len(all), maxAlso)] {
		if _, own := client.Cached[*v1alpha1.Commit](n.cfg.Client.Cache(), schema.Key{Name: report.CommitName(m.Commit.Spec.Repository, sha)}); own {
			continue
		}
		c := m.Commit.DeepCopy()
		c.Name, c.Spec.SHA, c.Status.Findings = m.Commit.Name+" "+sha, sha, nil
		c.Status.Message = "came in with " + m.Commit.Spec.SHA[:min(7, len(m.Commit.Spec.SHA))] + ": " + c.Status.Message
		out = append(out, Message{Notification: m.Notification, Commit: c, Mark: m.Mark, With: m.Commit})
	}
	return out
}
