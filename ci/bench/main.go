// Command bench measures the targets of the design on the built binary and
// prints them beside the recorded figures of the peers (Kubernetes v1.36.4,
// Flux). CPU per operation and ratios are what to compare: wall times vary
// with the machine. `make bench`; as root it also starts pods.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
)

// row is one line of the table.
type row struct{ id, work, peer, goal, ours string }

// bench measures some rows.
type bench struct {
	name string
	run  func(ctx context.Context, e *env) ([]row, error)
	long bool // it runs only when it is named
}

var benches = []bench{
	{name: "start", run: startup},
	{name: "idle", run: idle},
	{name: "create", run: creates},
	{name: "list", run: lists},
	{name: "replicas", run: replicas},
	{name: "schedule", run: schedule},
	{name: "commit", run: commits},
	{name: "files", run: files},
	{name: "fix", run: fixes},
	{name: "poll", run: polls},
	{name: "memory", run: memories},
	{name: "pods", run: pods},
	{name: "size", run: size},
	{name: "soak", run: soak, long: true},
}

func main() {
	only := flag.String("run", "", "run only the benchmarks, or the loads of a comparison, with these `names`, separated by commas")
	bin := flag.String("writ", "bin/writ", "the `binary` to measure")
	upstream := flag.String("upstream", "", "compare with upstream's API server side by side, run by this `command`")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if os.Getenv(simulator) != "" {
		if err := runSimulated(ctx); err != nil {
			fmt.Fprintf(os.Stderr, "simulate nodes: %v\n", err)
			os.Exit(1)
		}
		return
	}
	if err := start(ctx, *bin, *only, strings.Fields(*upstream)); err != nil {
		fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		os.Exit(1)
	}
}

// start runs the benchmarks, as root in a network namespace of their own.
func start(ctx context.Context, bin, only string, upstream []string) error {
	if os.Getuid() == 0 {
		if os.Getenv(marker) == "" {
			return inOwnNetwork(ctx)
		}
		if err := loopbackUp(); err != nil {
			return err
		}
	}
	if len(upstream) > 0 {
		return versus(ctx, bin, only, upstream)
	}
	return run(ctx, bin, only)
}

// chosen says whether a name is among those of -run, which are all by default.
func chosen(only, name string) bool {
	return only == "" || slices.Contains(strings.Split(only, ","), name)
}

func run(ctx context.Context, bin, only string) error {
	var rows []row
	for _, b := range benches {
		if !chosen(only, b.name) || b.long && only == "" {
			continue
		}
		load, _ := os.ReadFile("/proc/loadavg") //nolint:errcheck // it is for who reads along
		fmt.Fprintf(os.Stderr, "measuring %s (load averages %s)\n", b.name, bytes.TrimSpace(load))
		e, err := newEnv(bin)
		if err != nil {
			return err
		}
		r, err := b.run(ctx, e)
		e.close()
		rows = append(rows, r...)
		if err != nil {
			return errors.Join(fmt.Errorf("measure %s: %w", b.name, err), printRows(rows))
		}
	}
	return printRows(rows)
}

func printRows(rows []row) error {
	w := tabwriter.NewWriter(os.Stdout, 2, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tWORK\tWRIT\tGOAL\tPEER (RECORDED)")
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", r.id, r.work, r.ours, r.goal, r.peer)
	}
	return w.Flush()
}
