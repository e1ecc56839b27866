package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/writ-os/writ/schema/v1alpha1"
)

// fixes measures how soon the mend of a bad commit is in force, among 5,000
// objects: of one that was applied and does not become healthy, and of one
// that was refused.
func fixes(ctx context.Context, e *env) ([]row, error) {
	p, _, err := e.server(ctx)
	if err != nil {
		return nil, err
	}
	w, err := e.builtin(ctx, 40)
	if err != nil {
		return nil, err
	}
	if err := w.fill(0, objects, 0, mixed); err != nil {
		return nil, err
	}
	if _, _, err := w.apply(ctx, "Five thousand objects"); err != nil {
		return nil, err
	}
	if _, err := atRest(ctx, p); err != nil {
		return nil, err
	}
	var rows []row
	for _, bad := range []struct {
		work, peer string
		push       func(context.Context, *worktree, int) error
	}{
		{"fix of a commit that waits for pods no node runs", "290 s (3.4 s with a gate)", unhealthy},
		{"fix of a commit that was refused", "", refused},
	} {
		t, err := w.turns(ctx, 20, func(round int) error {
			if err := bad.push(ctx, w, round); err != nil {
				return fmt.Errorf("push the bad commit: %w", err)
			}
			return w.write("fixed.yaml", deployment(objects, round))
		})
		if err != nil {
			return nil, err
		}
		rows = append(rows, row{"P15b", bad.work + ", end of push to applied", bad.peer, "300 ms", t.String() + " for both"})
	}
	return rows, nil
}

// unhealthy pushes a Deployment of pods that nobody can run, and returns when
// the cluster has counted it as not healthy.
func unhealthy(ctx context.Context, w *worktree, round int) error {
	if err := w.write("fixed.yaml", deploymentOf(objects, round, 2)); err != nil {
		return err
	}
	p, err := w.push(ctx, "Pods that no node runs")
	if err != nil {
		return err
	}
	_, err = w.await(ctx, p.sha, func(c *v1alpha1.Commit) bool {
		return c.Status.Phase == v1alpha1.CommitApplied && len(c.Status.Unhealthy) > 0
	})
	return err
}

var errNotRefused = errors.New("a commit with an unknown field was not refused")

// refused pushes a field that does not exist.
func refused(ctx context.Context, w *worktree, round int) error {
	if err := w.write("fixed.yaml", deployment(objects, round)+"  replica: 1\n"); err != nil {
		return err
	}
	p, err := w.push(ctx, "A field that does not exist")
	if err == nil {
		return errNotRefused
	}
	if p.ended.IsZero() {
		return err // it was not pushed at all
	}
	_, err = w.await(ctx, p.sha, func(c *v1alpha1.Commit) bool {
		return c.Status.Phase == v1alpha1.CommitFailed && len(c.Status.Findings) > 0
	})
	return err
}
