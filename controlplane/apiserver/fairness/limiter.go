package fairness

import (
	"context"
	"sync"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// Limiter hands out the seats of the API server.
type Limiter struct {
	seats int
	wait  time.Duration

	mu       sync.Mutex
	schemas  []*flowcontrolv1.FlowSchema // in order
	levels   map[string]*level
	deleted  []*level // with requests that still run
	reserved int      // sum of max(running, kept) over all levels
}

// level is a priority level at work. One that is deleted lives until its last
// request has ended.
type level struct {
	share
	config  *flowcontrolv1.PriorityLevelConfiguration
	running int
	queue   queue
	// counts for the metrics
	rejected map[string]uint64
	served   uint64
}

// Seat is the right of one request to run.
type Seat struct {
	// FlowSchema and PriorityLevel that the request was put under.
	FlowSchema, PriorityLevel string
	// FlowSchemaUID and PriorityLevelUID are what the answer's headers say.
	FlowSchemaUID, PriorityLevelUID types.UID

	limiter *Limiter
	level   *level
}

// Acquire returns when the request may run, or an error of the API: 429 when
// its level is full, or when it has waited as long as requests may. The caller
// must Release the seat, and gets one with the names even when refused.
func (l *Limiter) Acquire(ctx context.Context, a authorizer.Attributes) (Seat, error) {
	l.mu.Lock()
	s := classify(l.schemas, a)
	lv := l.levels[s.Spec.PriorityLevelConfiguration.Name]
	if lv == nil { // a dangling schema
		s = bootstrap.MandatoryFlowSchemaCatchAll
		lv = l.levels[s.Spec.PriorityLevelConfiguration.Name]
	}
	seat := Seat{FlowSchema: s.Name, FlowSchemaUID: s.UID, PriorityLevel: lv.config.Name, PriorityLevelUID: lv.config.UID}
	if lv.config.Spec.Type == flowcontrolv1.PriorityLevelEnablementExempt {
		lv.served++
		l.mu.Unlock()
		return seat, nil
	}
	if lv.queue.size == 0 && lv.mayRun(lv.running, l.reserved, l.seats) {
		l.take(lv)
		l.mu.Unlock()
		seat.limiter, seat.level = l, lv
		return seat, nil
	}
	w, why := lv.enqueue(s.Name + "\x00" + flow(s, a))
	l.mu.Unlock()
	if w == nil {
		return seat, l.refuse(lv, why)
	}
	if err := l.await(ctx, lv, w); err != nil {
		return seat, err
	}
	seat.limiter, seat.level = l, lv
	return seat, nil
}

// enqueue lets a request wait, or says why it cannot, with upstream's words.
func (lv *level) enqueue(flow string) (*waiter, string) {
	limited := lv.config.Spec.Limited
	if limited == nil || limited.LimitResponse.Type != flowcontrolv1.LimitResponseTypeQueue {
		return nil, "concurrency-limit"
	}
	q := flowcontrolv1.QueuingConfiguration{Queues: 64, HandSize: 8, QueueLengthLimit: 50}
	if c := limited.LimitResponse.Queuing; c != nil {
		q = *c
	}
	w := &waiter{flow: flow, seat: make(chan struct{})}
	// A flow upstream may fill the queues of its hand.
	if !lv.queue.push(w, int(q.QueueLengthLimit*min(q.HandSize, q.Queues)), int(q.Queues*q.QueueLengthLimit)) {
		return nil, "queue-full"
	}
	return w, ""
}

// await waits for a seat.
func (l *Limiter) await(ctx context.Context, lv *level, w *waiter) error {
	t := time.NewTimer(l.wait)
	defer t.Stop()
	why := "time-out"
	select {
	case <-w.seat:
		return nil
	case <-t.C:
	case <-ctx.Done():
		why = "cancelled"
	}
	l.mu.Lock()
	select {
	case <-w.seat: // it came at the same moment
		l.mu.Unlock()
		return nil
	default:
	}
	lv.queue.remove(w)
	l.mu.Unlock()
	return l.refuse(lv, why)
}

// refuse counts a refusal and makes the error for the client.
func (l *Limiter) refuse(lv *level, why string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if lv.rejected == nil {
		lv.rejected = map[string]uint64{}
	}
	lv.rejected[why]++
	return apierrors.NewTooManyRequests("too many requests, please try again later", 1)
}

// Release gives the seat back; the next in turn gets it. It may be called on
// any seat, once.
func (s Seat) Release() {
	if s.level == nil {
		return
	}
	l := s.limiter
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reserved -= max(s.level.running, s.level.kept)
	s.level.running--
	l.reserved += max(s.level.running, s.level.kept)
	l.dispatch(s.level)
}

// take gives a level one more seat.
func (l *Limiter) take(lv *level) {
	l.reserved -= max(lv.running, lv.kept)
	lv.running++
	lv.served++
	l.reserved += max(lv.running, lv.kept)
}

// dispatch hands free seats to those who wait: first to the level whose seat
// came free, if it is still within what is its own, then to the others.
func (l *Limiter) dispatch(first *level) {
	l.drain(first)
	for _, lv := range l.levels {
		if lv != first && lv.queue.size > 0 {
			l.drain(lv)
		}
	}
}

func (l *Limiter) drain(lv *level) {
	for lv.queue.size > 0 && lv.mayRun(lv.running, l.reserved, l.seats) {
		w := lv.queue.pop()
		l.take(lv)
		close(w.seat)
	}
}
