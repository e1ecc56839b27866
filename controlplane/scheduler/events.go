package scheduler

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

// bindResult is the message that a binding has been written, or not.
type bindResult struct {
	binding
	err error
}

// notEvicted is the message that a pod which was to make room for another is
// still there.
type notEvicted struct {
	key schema.Key
	uid types.UID
	err error
}

// receive takes in one message.
func (s *Scheduler) receive(m any) {
	switch m := m.(type) {
	case bindResult:
		s.bound(m.binding, m.err)
	case notEvicted:
		s.notEvicted(m)
	case client.Event:
		deleted := m.Type == client.Deleted
		if !deleted && m.Type != client.Added && m.Type != client.Modified {
			return
		}
		switch o := m.Object.(type) {
		case *corev1.Node:
			s.nodeEvent(o, deleted)
		case *corev1.Pod:
			s.podEvent(o, deleted)
		case *corev1.Namespace:
			s.cluster.peers.setNamespace(o, deleted)
		}
	}
}

func (s *Scheduler) nodeEvent(node *corev1.Node, deleted bool) {
	if deleted {
		delete(s.changed, s.cluster.byName[node.Name])
		s.cluster.removeNode(node.Name)
		return
	}
	if n, better := s.cluster.setNode(node); better {
		s.changed[n] = true
	}
}

func (s *Scheduler) podEvent(pod *corev1.Pod, deleted bool) {
	key := schema.KeyOf(pod)
	switch {
	case deleted || ended(pod):
		s.forget(key)
		s.freed(s.cluster.removePod(key))
	case pod.Spec.NodeName != "":
		s.forget(key)
		s.freed(s.cluster.setPod(pod))
	case !s.wants(pod):
		s.forget(key)
	case s.cluster.assumed(key) != nil && s.cluster.assumed(key).pod.UID == pod.UID:
		// Its binding is on the way.
	default:
		s.pending(key, pod)
	}
}

// wants says whether a pod without a node is to be given one.
func (s *Scheduler) wants(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && pod.Spec.SchedulerName == s.cfg.Name && len(pod.Spec.SchedulingGates) == 0
}

// forget takes a pod out of the queue.
func (s *Scheduler) forget(key schema.Key) {
	if w := s.queue.pods[key]; w != nil {
		s.unnominate(w)
		s.leaveSlot(w)
		s.queue.remove(key)
	}
}

// pending takes in a pod that waits for a node. A change that no filter reads
// (a status, our own condition) does not make it worth another try.
func (s *Scheduler) pending(key schema.Key, pod *corev1.Pod) {
	if w := s.queue.pods[key]; w != nil && w.pod.UID == pod.UID && w.pod.Generation == pod.Generation {
		w.podInfo.pod = pod
		return
	}
	if w := s.queue.pods[key]; w != nil {
		s.unnominate(w)
		s.leaveSlot(w)
	}
	if s.cluster.assumed(key) != nil {
		s.freed(s.cluster.removePod(key)) // another pod of the name
	}
	p, err := newPending(pod)
	if err != nil {
		s.cfg.Log.Warn("pod cannot be scheduled", "pod", key, "err", err)
		s.forget(key)
		s.writer.report(report{pod: pod, message: err.Error(), reason: "SchedulerError", changed: true})
		return
	}
	s.queue.add(p, time.Now())
}
