package main

import (
	"context"
	"fmt"
)

// files measures a change of one file among 50,000, each a ConfigMap that the
// cluster has.
func files(ctx context.Context, e *env) ([]row, error) {
	p, _, err := e.server(ctx)
	if err != nil {
		return nil, err
	}
	w, err := e.builtin(ctx, 500)
	if err != nil {
		return nil, err
	}
	// In portions: a push is answered within a minute, on slow machines too.
	const n, portion = 50_000, 5_000
	for from := 0; from < n; from += portion {
		if err := w.fill(from, portion, 0, configMap); err != nil {
			return nil, err
		}
		if _, _, err := w.apply(ctx, fmt.Sprintf("%d files", from+portion)); err != nil {
			return nil, err
		}
	}
	if _, err := atRest(ctx, p); err != nil {
		return nil, err
	}
	one, err := w.turns(ctx, 20, func(round int) error { return w.fill(round*991, 1, round, configMap) })
	if err != nil {
		return nil, err
	}
	return []row{{"P13b", "one of 50,000 files changed (ConfigMaps, all applied), end of push to applied", "", "80 ms", one.String()}}, nil
}
