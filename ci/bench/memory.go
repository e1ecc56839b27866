package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

const (
	declared    = 10_000 // objects
	perFile     = 10
	validations = 100_000
)

// memories measures what 10,000 objects of a repository hold, and that reading
// more commits does not add to it.
func memories(ctx context.Context, e *env) ([]row, error) {
	p, _, err := e.server(ctx)
	if err != nil {
		return nil, err
	}
	idle, err := atRest(ctx, p)
	if err != nil {
		return nil, err
	}
	w, err := e.builtin(ctx, 40)
	if err != nil {
		return nil, err
	}
	if err := w.fillTens(0); err != nil {
		return nil, err
	}
	if _, _, err := w.apply(ctx, "Ten thousand objects"); err != nil {
		return nil, err
	}
	full, err := atRest(ctx, p)
	if err != nil {
		return nil, err
	}
	first, last, err := w.validate(ctx, p)
	if err != nil {
		return nil, err
	}
	e.stop(p)
	same, err := createdAlike(ctx, e.bin)
	if err != nil {
		return nil, err
	}
	return []row{
		{"P15", "memory of 10,000 declared objects above that of 10,000 created ones, anonymous", "240-280 MiB", "60 MiB",
			fmt.Sprintf("%s (idle %s, declared %s, created %s)", mib(full.anon-idle.anon-same), mib(idle.anon), mib(full.anon), mib(idle.anon+same))},
		{"P15", "the same after 10,000 / 100,000 validations of refused commits", "", "flat", mib(first.anon) + " / " + mib(last.anon)},
	}, nil
}

// fillTens declares 10,000 objects, ten in each file.
func (w *worktree) fillTens(round int) error {
	for i := 0; i < declared; i += perFile {
		var text strings.Builder
		for j := range perFile {
			text.WriteString("---\n" + mixed(i+j, round))
		}
		if err := w.write(w.place(i/perFile), text.String()); err != nil {
			return err
		}
	}
	return nil
}

// validate has the server validate 100,000 objects: it pushes commits that
// change all of them and are refused for one. first is the memory after the
// first of these commits.
func (w *worktree) validate(ctx context.Context, p *exec.Cmd) (first, last usage, err error) {
	for round := 1; round <= validations/declared; round++ {
		if err := w.fillTens(round); err != nil {
			return first, last, err
		}
		if err := refused(ctx, w, round); err != nil {
			return first, last, err
		}
		if round == 1 {
			if first, err = atRest(ctx, p); err != nil {
				return first, last, err
			}
		}
	}
	last, err = atRest(ctx, p)
	return first, last, err
}

// createdAlike is the memory above idle of a server where a client has created
// the same objects: what the store and the controllers hold of them.
func createdAlike(ctx context.Context, bin string) (above int64, err error) {
	e, err := newEnv(bin)
	if err != nil {
		return 0, err
	}
	defer e.close()
	p, _, err := e.server(ctx)
	if err != nil {
		return 0, err
	}
	idle, err := atRest(ctx, p)
	if err != nil {
		return 0, err
	}
	c, err := e.client()
	if err != nil {
		return 0, err
	}
	if _, err := c.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "bench"}}, metav1.CreateOptions{}); err != nil {
		return 0, err
	}
	if _, _, err := parallel(ctx, e, declared, 8, createMixed); err != nil {
		return 0, err
	}
	full, err := atRest(ctx, p)
	return full.anon - idle.anon, err
}

func createMixed(ctx context.Context, c *kubernetes.Clientset, i int) error {
	return c.CoreV1().RESTClient().Post().AbsPath(collections[kindOf(i)]).SetHeader("Content-Type", "application/yaml").Body([]byte(mixed(i, 0))).Do(ctx).Error()
}

var errNeverAtRest = errors.New("the server is still at work after ten minutes")

// atRest waits until a server does next to nothing and has given back the
// memory that it does not need, and measures it: for a while in a row it uses
// less than 4 % of a CPU.
func atRest(ctx context.Context, p *exec.Cmd) (usage, error) {
	const window, while = 5 * time.Second, 3
	before, err := measure(p)
	calm := 0
	for range 10 * time.Minute / window {
		if err != nil {
			return before, err
		}
		select {
		case <-ctx.Done():
			return before, ctx.Err()
		case <-time.After(window):
		}
		var u usage
		u, err = measure(p)
		calm++
		if u.since(before) > window/25 {
			calm = 0
		}
		if before = u; calm == while {
			return u, err
		}
	}
	return before, errNeverAtRest
}
