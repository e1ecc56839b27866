// Command suite runs upstream's conformance specs against a cluster of this
// project and writes docs/conformance.md.
//
//	suite -focus 'Secrets' -skip 'pods'
//
// It starts `writ up` in a network namespace of its own, and a machine that joins
// in another, with data directories that it removes, and runs e2e.test there; or it uses the cluster of
// -kubeconfig. The table has a row for every [Conformance] spec of the groups
// that concern the API; a run replaces the rows of the specs that it ran and
// leaves the others.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

type config struct {
	e2e, writ, kubectl string // binaries
	kubeconfig         string
	focus, skip        string
	images             string
	table              string
	results            string
	failures           string
	agent              bool
	shards, nodes      int
}

// groups are the owners of the specs in the table.
var groups = []string{"sig-api-machinery", "sig-auth", "sig-cli", "sig-instrumentation", "sig-architecture"}

func main() {
	var cfg config
	flag.StringVar(&cfg.e2e, "e2e", "bin/e2e.test", "upstream's `binary`")
	flag.StringVar(&cfg.writ, "writ", "bin/writ", "the `binary` under test")
	flag.StringVar(&cfg.kubectl, "kubectl", "bin/kubectl", "the `binary` that the specs of sig-cli call")
	flag.StringVar(&cfg.kubeconfig, "kubeconfig", "", "a cluster that runs, instead of an own one")
	flag.StringVar(&cfg.focus, "focus", "", "run only specs whose name matches this `regexp`")
	flag.StringVar(&cfg.skip, "skip", "", "leave out specs whose name matches this `regexp`")
	flag.StringVar(&cfg.table, "table", "docs/conformance.md", "the `file` to bring up to date")
	flag.StringVar(&cfg.results, "results", "", "keep reports and logs in this `directory`")
	flag.StringVar(&cfg.failures, "failures", "", "append the errors of failed specs to this `file`")
	flag.StringVar(&cfg.images, "images", "", "image archives (`*.tar` of a directory) to load into the node before")
	flag.IntVar(&cfg.shards, "shards", 3, "processes beside each other; most specs wait most of their time")
	flag.IntVar(&cfg.nodes, "nodes", 2, "machines of the cluster: 1 or 2")
	flag.BoolVar(&cfg.agent, "agent", true, "run a node too; needs root")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, cfg); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, cfg config) error {
	if cfg.results == "" {
		dir, err := os.MkdirTemp("", "conformance-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		cfg.results = dir
	}
	for _, file := range []*string{&cfg.e2e, &cfg.writ, &cfg.kubectl, &cfg.results} {
		abs, err := filepath.Abs(*file)
		if err != nil {
			return err
		}
		*file = abs
	}
	t, err := readTable(cfg.table)
	if err != nil {
		return err
	}
	all, err := specs(ctx, cfg)
	if err != nil {
		return err
	}
	t.keep(all)
	var selected []string
	if selected, err = choose(cfg, all); err != nil {
		return err
	}
	log.Printf("%d specs, %d to run", len(all), len(selected))
	var ran []result
	if len(selected) > 0 {
		if ran, err = execute(ctx, cfg, selected); err != nil {
			return err
		}
	}
	t.set(ran)
	if err := writeFailures(cfg.failures, ran); err != nil {
		return err
	}
	return t.write(cfg.table)
}

// specs lists every conformance spec of the groups.
func specs(ctx context.Context, cfg config) ([]string, error) {
	file := filepath.Join(cfg.results, "all.json")
	cmd := exec.CommandContext(ctx, cfg.e2e, "--ginkgo.dry-run", "--ginkgo.silence-skips", "--ginkgo.focus=\\[Conformance\\]", "--ginkgo.json-report="+file)
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("list specs: %w: %.2000s", err, out)
	}
	ran, err := readReport(file)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, r := range ran {
		if r.group() != "" && strings.Contains(r.name, "[Conformance]") {
			all = append(all, r.name)
		}
	}
	return all, nil
}

func choose(cfg config, all []string) (selected []string, err error) {
	focus, err := regexp.Compile(cfg.focus)
	if err != nil {
		return nil, fmt.Errorf("-focus: %w", err)
	}
	var skip *regexp.Regexp
	if cfg.skip != "" {
		if skip, err = regexp.Compile(cfg.skip); err != nil {
			return nil, fmt.Errorf("-skip: %w", err)
		}
	}
	for _, name := range all {
		if focus.MatchString(name) && (skip == nil || !skip.MatchString(name)) {
			selected = append(selected, name)
		}
	}
	return selected, nil
}

// execute runs the chosen specs: those that bear company in some processes of
// e2e.test beside each other, then the [Serial] ones.
func execute(ctx context.Context, cfg config, selected []string) (all []result, err error) {
	c, err := startCluster(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer c.stop()
	together, alone := split(selected, cfg.shards)
	var (
		mu sync.Mutex
		g  errgroup.Group
	)
	one := func(name string, specs []string) error {
		ran, err := e2e(ctx, cfg, c, name, specs)
		mu.Lock()
		defer mu.Unlock()
		all = append(all, ran...)
		return err
	}
	for i, part := range together {
		g.Go(func() error { return one(strconv.Itoa(i), part) })
	}
	err = g.Wait()
	if len(alone) > 0 && ctx.Err() == nil {
		err = errors.Join(err, one("serial", alone))
	}
	if len(all) > 0 && err != nil {
		log.Print(err) // what did run is worth keeping
		err = nil
	}
	return all, err
}

// split deals specs out to n shards.
func split(selected []string, n int) (together [][]string, alone []string) {
	together = make([][]string, max(n, 1))
	for i, name := range selected {
		if strings.Contains(name, "[Serial]") {
			alone = append(alone, name)
			continue
		}
		together[i%len(together)] = append(together[i%len(together)], name)
	}
	return slices.DeleteFunc(together, func(part []string) bool { return len(part) == 0 }), alone
}

// e2e runs specs in one process.
func e2e(ctx context.Context, cfg config, c *cluster, name string, specs []string) ([]result, error) {
	exact := make([]string, len(specs))
	for i, s := range specs {
		exact[i] = regexp.QuoteMeta(s) + "$"
	}
	file := func(kind string) string { return filepath.Join(cfg.results, kind) }
	cmd := c.command(ctx, cfg.e2e, "--ginkgo.focus="+strings.Join(exact, "|"), "--ginkgo.json-report="+file("report-"+name+".json"), "--ginkgo.no-color",
		"--ginkgo.silence-skips", "--ginkgo.timeout=2h", "--provider=local", "--kubeconfig="+c.kubeconfig, "--kubectl-path="+cfg.kubectl,
		"--minStartupPods=0", "--allowed-not-ready-nodes=-1", "--disable-log-dump", "--delete-namespace-on-failure=true")
	// It is told to end, and then writes its report.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	out, err := os.Create(file("e2e-" + name + ".log"))
	if err != nil {
		return nil, err
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	// Failed specs make it fail too; the report says more.
	runErr := cmd.Run()
	ran, err := readReport(file("report-" + name + ".json"))
	if err != nil {
		return nil, fmt.Errorf("e2e.test left no good report (%v): %w; its output is in %s", runErr, err, out.Name())
	}
	return ran, nil
}
