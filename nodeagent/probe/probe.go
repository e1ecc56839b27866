// Package probe asks containers whether they are started, alive and ready.
//
// A Worker follows one probe of one running container: it waits, asks, counts,
// and reports a result when the count reaches its threshold. It ends with its
// context, which the pod's worker cancels when the container ends; a new
// attempt gets new workers. Asking is done by a Prober: HTTP, TCP and gRPC from
// the host's side to the pod's address, commands by the runtime.
package probe

import (
	"context"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Type of a probe.
type Type string

// The types of probes.
const (
	Startup   Type = "Startup"
	Liveness  Type = "Liveness"
	Readiness Type = "Readiness"
)

// Result of asking.
type Result string

// The results of a probe. An Unknown one is thrown away.
const (
	Success Result = "success"
	Failure Result = "failure"
	Unknown Result = "unknown"
)

// Prober asks once.
type Prober interface {
	Probe(ctx context.Context, p *corev1.Probe, t Target) (Result, string)
}

// Worker follows one probe.
type Worker struct {
	Type   Type
	Spec   *corev1.Probe
	Target Target
	Prober Prober
	// Since is when the container started.
	Since time.Time
	// Spread delays the first probe by a part of the period, after a restart of
	// the agent that would otherwise ask all containers at once.
	Spread bool
	// OnResult is told when the state changes for good or for the first time.
	OnResult func(Result)
	// OnFailure is told of every single failure, for the event.
	OnFailure func(message string)
}

// Run asks until ctx ends. A startup probe ends when its outcome is known, and
// a liveness probe when it has failed: the container is restarted then.
func (w *Worker) Run(ctx context.Context) {
	period := seconds(w.Spec.PeriodSeconds, 10)
	delay := time.Until(w.Since.Add(time.Duration(w.Spec.InitialDelaySeconds) * time.Second))
	if w.Spread {
		delay = max(delay, time.Duration(rand.Float64()*float64(period)))
	}
	c := counter{success: int(max(w.Spec.SuccessThreshold, 1)), failure: threshold(w.Spec.FailureThreshold)}
	timer := time.NewTimer(max(delay, 0))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		timer.Reset(period)
		result, message := w.ask(ctx)
		if ctx.Err() != nil {
			return
		}
		if result == Failure && w.OnFailure != nil {
			w.OnFailure(message)
		}
		if !c.add(result) {
			continue
		}
		w.OnResult(result)
		if w.Type == Startup || (w.Type == Liveness && result == Failure) {
			return
		}
	}
}

func (w *Worker) ask(ctx context.Context) (Result, string) {
	ctx, cancel := context.WithTimeout(ctx, seconds(w.Spec.TimeoutSeconds, 1))
	defer cancel()
	return w.Prober.Probe(ctx, w.Spec, w.Target)
}

func seconds(n, def int32) time.Duration {
	if n <= 0 {
		n = def
	}
	return time.Duration(n) * time.Second
}

func threshold(n int32) int {
	if n <= 0 {
		return 3
	}
	return int(n)
}

// counter counts equal results in a row.
type counter struct {
	success, failure int // thresholds
	last             Result
	run              int
	state            Result
}

// add counts a result and says whether the state has changed by it.
func (c *counter) add(r Result) bool {
	if r == Unknown {
		return false
	}
	if r == c.last {
		c.run++
	} else {
		c.last, c.run = r, 1
	}
	if (r == Success && c.run < c.success) || (r == Failure && c.run < c.failure) || r == c.state {
		return false
	}
	c.state = r
	return true
}
