package render

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/writ-os/writ/schema/v1alpha1"
)

// evalTimeout bounds the evaluation of one CUE package, and of the releases of
// one file. Those that people write take milliseconds.
const evalTimeout = 10 * time.Second

// buildTimeout bounds one build. Kustomize is slow with thousands of objects.
const buildTimeout = 120 * time.Second

// building lets one build run at a time: kustomize keeps the schema that it
// merges by in a variable of its own.
var building = make(chan struct{}, 1)

// renderBounded renders a unit that runs what others wrote: a CUE package, a
// kustomization, or a file that asks for charts, whose content is data. None
// of the three can be interrupted, and none bounds its memory: so that is done
// in a child where there is a Sandbox. Where there is none the work is left
// behind when its time is up, and the finding keeps the commit out, so that it
// is not tried again before the unit changes.
func renderBounded(ctx context.Context, out *Rendered, data []byte) (*Rendered, error) {
	u := out.unit
	if u.opts != nil && u.opts.Sandbox != nil {
		return renderThere(ctx, u.opts.Sandbox, out, data)
	}
	ctx, cancel := context.WithTimeout(ctx, u.limit())
	defer cancel()
	if u.format == formatKustomize {
		select {
		case building <- struct{}{}:
		case <-ctx.Done():
			return late(ctx, u)
		}
	}
	type result struct {
		out *Rendered
		err error
	}
	done := make(chan result, 1)
	go func() {
		if u.format == formatKustomize {
			defer func() { <-building }()
		}
		out, err := run(out, data)
		done <- result{out, err}
	}()
	select {
	case r := <-done:
		return r.out, r.err
	case <-ctx.Done():
		return late(ctx, u)
	}
}

// late is what a unit has become when ctx has ended.
func late(ctx context.Context, u *Unit) (*Rendered, error) {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return tooSlow(u), nil
	}
	return nil, ctx.Err()
}

// run renders such a unit in this process and without bounds.
func run(base *Rendered, data []byte) (out *Rendered, err error) {
	out = base.again()
	defer func() {
		if p := recover(); p != nil {
			out = base.again()
			out.find(v1alpha1.Finding{File: out.unit.Path, Rule: "Syntax", Message: fmt.Sprintf("evaluation of the %s broke down: %v", out.unit.what(), p)})
		}
	}()
	switch u := out.unit; u.format {
	case formatCUE:
		renderCUE(out)
	case formatKustomize:
		err = u.kust.build(out)
	default:
		renderFile(out, u, data)
	}
	return out, err
}

// again is what was known before anything was rendered.
func (out *Rendered) again() *Rendered {
	return &Rendered{unit: out.unit, sealed: out.sealed, masked: out.masked, redact: out.redact, Plain: out.Plain}
}

// what names the unit in findings.
func (u *Unit) what() string {
	switch u.format {
	case formatCUE:
		return "CUE package"
	case formatKustomize:
		return "Kustomize build"
	}
	if len(u.charts) == 0 {
		return "file"
	}
	return "Helm release"
}

func (u *Unit) limit() time.Duration {
	if u.format == formatKustomize {
		return buildTimeout
	}
	return evalTimeout
}

// tooSlow is the finding of a unit whose time is up.
func tooSlow(u *Unit) *Rendered {
	out := &Rendered{unit: u}
	out.find(v1alpha1.Finding{File: u.Path, Rule: "TooSlow",
		Message: fmt.Sprintf("the %s is not evaluated after %s", u.what(), u.limit()), Hint: "make it smaller, or split it"})
	return out
}
