package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"text/tabwriter"
	"time"
)

// figure is one number of one server.
type figure struct {
	work string
	// goal is the largest ratio of ours to theirs that is wanted; for rates it
	// is the smallest.
	goal  float64
	rate  bool
	value float64
	unit  string
}

// The loads of the comparison. Both servers get the same, one after the other,
// from the same clients on the same machine.
const (
	versusCreates  = 6000
	versusGets     = 20000
	versusPods     = 10000
	versusWatchers = 100
	versusUpdates  = 300
	versusCrowd    = 1000
)

// load is one part of the comparison. Each works on what those before it have
// left, and makes what is missing of it.
type load struct {
	name string
	run  func(context.Context, *env, *exec.Cmd) ([]figure, error)
}

var loads = []load{
	{"idle", versusIdle}, {"write", versusWrite}, {"read", versusRead}, {"list", versusList}, {"watch", versusFanOut}, {"memory", versusMemory},
}

// versus measures this server and upstream's side by side. upstream is the
// command that runs kube-apiserver over etcd (make conformance builds both).
func versus(ctx context.Context, bin, only string, upstream []string) error {
	theirs, err := measureServer(ctx, bin, only, upstream)
	if err != nil {
		return fmt.Errorf("measure upstream: %w", err)
	}
	ours, err := measureServer(ctx, bin, only, nil)
	if err != nil {
		return fmt.Errorf("measure writ: %w", err)
	}
	w := tabwriter.NewWriter(os.Stdout, 2, 0, 2, ' ', 0)
	fmt.Fprintln(w, "WORK\tWRIT\tKUBERNETES\tRATIO\tGOAL")
	for i, f := range ours {
		goal := fmt.Sprintf("<= %.2f", f.goal)
		if f.rate {
			goal = fmt.Sprintf(">= %.1f", f.goal)
		}
		fmt.Fprintf(w, "%s\t%.4g %s\t%.4g %s\t%.2f\t%s\n", f.work, f.value, f.unit, theirs[i].value, f.unit, f.value/theirs[i].value, goal)
	}
	return w.Flush()
}

// measureServer puts one server through the loads.
func measureServer(ctx context.Context, bin, only string, upstream []string) ([]figure, error) {
	e, err := newEnv(bin)
	if err != nil {
		return nil, err
	}
	defer e.close()
	// Upstream's server runs without controllers and scheduler; so does ours.
	e.upstream, e.flags = upstream, []string{"--api-only"}
	p, _, err := e.server(ctx)
	if err != nil {
		return nil, err
	}
	e.stop(p)
	p, ready, err := e.server(ctx) // the second start finds its certificates
	if err != nil {
		return nil, err
	}
	out := []figure{{work: "exec to ready, small data directory", goal: 0.05, value: ready.Seconds() * 1000, unit: "ms"}}
	for _, l := range loads {
		if !chosen(only, l.name) {
			continue
		}
		f, err := l.run(ctx, e, p)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", l.name, err)
		}
		out = append(out, f...)
	}
	return out, nil
}

func perOp(d time.Duration, n int) float64 { return float64(d.Microseconds()) / float64(n) }
