package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/writ-os/writ/cmd/writ/cluster"
	"github.com/writ-os/writ/cmd/writ/memory"
	"github.com/writ-os/writ/cmd/writ/progress"
)

// startLimit is how long `up` waits for the first commit to be healthy. The
// cluster goes on either way.
const startLimit = 3 * time.Minute

func upCommand() *cobra.Command {
	var f serverFlags
	var detach bool
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start a whole cluster on this machine",
		Long: `Up runs a whole cluster in one process: store, API server, controllers,
scheduler, reconciler, and a node agent over containerd, which it starts if none
runs. Without --repo the cluster serves its own Git remote, seeded with the
guestbook example, and prints how to clone it.

It needs root: it makes network namespaces and packet filter rules.`,
		Example: "  writ up\n  writ up --detach\n  writ up --repo https://git.example.com/cluster.git --branch main --path clusters/home",
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := f.log()
			if err != nil {
				return err
			}
			cfg, err := f.config(log)
			if err != nil {
				return err
			}
			if os.Getuid() != 0 {
				return errors.New("up needs root, for containers and their network: run it with sudo. 'writ server --no-agent' does without")
			}
			if detach {
				return detached(cmd.Context(), cfg, f.output == "json", cmd.OutOrStdout())
			}
			return attached(cmd.Context(), &f, cfg, cmd.OutOrStdout())
		},
	}
	f.add(cmd)
	f.addNode(cmd)
	cmd.Flags().StringVar(&f.cfg.Seed, "seed", "guestbook", "`example` that the built-in remote begins with: guestbook, shop, or none with ''")
	cmd.Flags().BoolVar(&detach, "detach", false, "return when the cluster is up, and leave it running")
	return cmd
}

// attached runs the cluster in this process. Its progress goes to a parent that
// has detached it, or to the terminal.
func attached(ctx context.Context, f *serverFlags, cfg cluster.Config, out io.Writer) error {
	show := shower(out, f.output == "json")
	cfg.Progress = show.step
	p := cluster.NewControlPlane(cfg)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return p.Run(ctx) })
	g.Go(func() error { return cluster.NewNode(f.node(cfg), p).Run(ctx) })
	g.Go(func() error { return notifyReady(ctx, p.Ready()) })
	g.Go(func() error { return memory.New(memory.Config{Log: cfg.Log}).Run(ctx) })
	g.Go(func() error {
		limited, cancel := context.WithTimeout(ctx, startLimit)
		defer cancel()
		err := p.Await(limited)
		if ctx.Err() == nil {
			show.up(cfg, err)
		}
		return nil
	})
	err := g.Wait()
	if err != nil && !errors.Is(err, cluster.ErrAgain) {
		show.failed(err)
	}
	return err
}

// message is one step of a start: a line of -o json, and what a detached
// cluster tells the process that waits for it.
type message struct {
	Step   string `json:"step,omitempty"`
	Detail string `json:"detail,omitempty"`
	Error  string `json:"error,omitempty"`
	// Of the last message:
	Up         bool   `json:"up,omitempty"`
	Kubeconfig string `json:"kubeconfig,omitempty"`
	Repository string `json:"repository,omitempty"`
	GitConfig  string `json:"gitConfig,omitempty"`
}

// isUp is the last message of a start that went well.
func isUp(cfg cluster.Config) message {
	m := message{Up: true, Kubeconfig: cfg.ViewerKubeconfig()}
	if cfg.BuiltIn() {
		m.Repository, m.GitConfig = cfg.Remote(), cfg.PusherGitConfig()
	}
	return m
}

// shows is where progress goes.
type shows struct {
	mu    sync.Mutex
	steps *progress.Steps
	lines *json.Encoder // to the parent, or of -o json; nil for people
	told  message
	last  string // step
	out   io.Writer
	done  bool
}

// pipeVariable names the file descriptor of the parent's pipe.
const pipeVariable = "WRIT_PROGRESS_FD"

func shower(out io.Writer, asJSON bool) *shows {
	s := &shows{out: out}
	switch {
	case os.Getenv(pipeVariable) == "3":
		s.lines = json.NewEncoder(os.NewFile(3, "progress"))
	case asJSON:
		s.lines = json.NewEncoder(out)
	default:
		s.steps = progress.New(out, terminal())
	}
	return s
}

func (s *shows) step(step, detail string) { s.tell(message{Step: step, Detail: detail}) }

func (s *shows) tell(m message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done || m == s.told {
		return
	}
	s.told = m
	s.done = m.Up || m.Error != ""
	if s.lines != nil {
		_ = s.lines.Encode(m) //nolint:errcheck // the parent may have gone; the cluster stays
		return
	}
	s.render(m)
}

// render draws a message; the caller holds the lock.
func (s *shows) render(m message) {
	switch {
	case m.Error != "":
		s.steps.Fail("")
	case m.Up:
		s.steps.Done("")
	case m.Step == s.last:
		s.steps.Detail(m.Detail)
	default:
		s.last = m.Step
		s.steps.Start(m.Step, m.Detail)
	}
}

func (s *shows) failed(err error) { s.tell(message{Error: err.Error()}) }

// up says that the cluster is up, and what to type next.
func (s *shows) up(cfg cluster.Config, err error) {
	if errors.Is(err, context.DeadlineExceeded) {
		s.step("commit", "not healthy yet; see 'writ status'")
	}
	s.tell(isUp(cfg))
	if s.lines == nil {
		whatNext(s.out, cfg, false)
	}
}

// whatNext prints what a person would type now.
func whatNext(w io.Writer, cfg cluster.Config, detached bool) {
	flag := ""
	if cfg.DataDir != defaultDataDir {
		flag = " --data-dir " + cfg.DataDir
	}
	fmt.Fprintf(w, "\nThe cluster is up. It becomes what its repository says; kubectl reads.\n\n")
	fmt.Fprintf(w, "  export KUBECONFIG=%s\n", cfg.ViewerKubeconfig())
	if cfg.BuiltIn() {
		fmt.Fprintf(w, "  git clone --config include.path=%s %s\n", cfg.PusherGitConfig(), cfg.Remote())
	}
	fmt.Fprintf(w, "  %s get pods -A -w\n", kubectl())
	fmt.Fprintf(w, "  %s status -w%s\n", self(), flag)
	if cfg.Seed == "guestbook" && cfg.BuiltIn() {
		fmt.Fprintf(w, "  curl http://10.244.0.1:30080/\n")
	}
	if detached {
		fmt.Fprintf(w, "\nIts log is %s; '%s down%s' stops it.\n", logFile(cfg), self(), flag)
	}
}
