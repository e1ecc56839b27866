package cluster

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"
)

// layers are the parts of a server by what they stand on. They end from the top:
// who has been answered by the API must find stored what it was told is stored,
// and who has been refused must not, so that requests finish before what they
// need ends.
//
//	front   the API: takes no more, finishes what runs, ends watches
//	loops   controllers, reconciler, audit, what requests are decided by
//	store   hands the lead to another server, and closes its files
//
// The first error of a part ends all of them.
type layers struct {
	front, loops, store layer

	told context.Context //nolint:containedctx // done when the server is told to end
}

type layer struct {
	*errgroup.Group
	ctx context.Context //nolint:containedctx // it is the life of the layer
	end context.CancelFunc
}

// errBelow ends the front when something that it stands on has failed.
var errBelow = errors.New("a part has ended")

// newLayers returns layers whose front ends with ctx.
func newLayers(ctx context.Context) *layers {
	l := &layers{front: newLayer(ctx), loops: newLayer(context.WithoutCancel(ctx)), store: newLayer(context.WithoutCancel(ctx)), told: ctx}
	l.front.Go(func() error {
		select {
		case <-l.loops.ctx.Done():
		case <-l.store.ctx.Done():
		case <-l.front.ctx.Done():
			return nil
		}
		return errBelow
	})
	return l
}

func newLayer(ctx context.Context) layer {
	ctx, end := context.WithCancel(ctx)
	g, ctx := errgroup.WithContext(ctx)
	return layer{g, ctx, end}
}

// wait returns the first error of a part when all have ended. Once the server is
// told to end it is no error of a part that it says so.
func (l *layers) wait() error {
	toldSo := func(err error) bool { return l.told.Err() != nil && errors.Is(err, context.Canceled) }
	err := l.front.Wait()
	if toldSo(err) {
		err = nil
	}
	l.front.end()
	for _, below := range []layer{l.loops, l.store} {
		below.end()
		if failed := below.Wait(); failed != nil && !toldSo(failed) && (err == nil || errors.Is(err, errBelow)) {
			err = failed
		}
	}
	return err
}

// stop is wait for an error outside of the parts.
func (l *layers) stop(err error) error {
	l.front.Go(func() error { return err })
	return l.wait()
}
