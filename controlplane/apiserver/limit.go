package apiserver

import (
	"context"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"
)

// limiter bounds how many requests run at once. People and their tools share
// part of the slots; the rest is for the cluster's own parts, so that no client
// can keep nodes and controllers from working.
type limiter struct {
	all    chan struct{} // every request holds one
	people chan struct{} // requests of others than the system hold one besides
	wait   time.Duration
}

func newLimiter(inFlight int) *limiter {
	return &limiter{
		all:    make(chan struct{}, inFlight),
		people: make(chan struct{}, max(1, inFlight-inFlight/4)),
		wait:   5 * time.Second,
	}
}

// acquire takes a slot, waiting for one for a while. The error asks the client
// to come back.
func (l *limiter) acquire(ctx context.Context, u user.Info) (release func(), err error) {
	if isSystem(u) {
		if err := l.take(ctx, l.all); err != nil {
			return nil, err
		}
		return func() { <-l.all }, nil
	}
	if err := l.take(ctx, l.people); err != nil {
		return nil, err
	}
	if err := l.take(ctx, l.all); err != nil {
		<-l.people
		return nil, err
	}
	return func() { <-l.all; <-l.people }, nil
}

func (l *limiter) take(ctx context.Context, slots chan struct{}) error {
	select {
	case slots <- struct{}{}:
		return nil
	default:
	}
	t := time.NewTimer(l.wait)
	defer t.Stop()
	select {
	case slots <- struct{}{}:
		return nil
	case <-t.C:
	case <-ctx.Done():
	}
	return apierrors.NewTooManyRequests("Too many requests, please try again later.", 1)
}

// isSystem says whether a user is a part of the cluster: a node, a component,
// or the holder of a break-glass credential. Service accounts are not.
func isSystem(u user.Info) bool {
	for _, g := range u.GetGroups() {
		if g == user.SystemPrivilegedGroup || g == user.NodesGroup {
			return true
		}
	}
	name := u.GetName()
	return strings.HasPrefix(name, "system:") && !strings.HasPrefix(name, "system:serviceaccount:") && name != user.Anonymous
}
