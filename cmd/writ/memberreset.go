package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"github.com/writ-os/writ/cmd/writ/cluster"
	"github.com/writ-os/writ/cmd/writ/member"
)

func memberReset() *cobra.Command {
	var a access
	var yes bool
	cmd := &cobra.Command{
		Use:   "reset",
		Short: "Go on with one server alone when most are lost for good",
		Long: `Reset makes one server the only one of its cluster, with what it has stored: when
most of the servers are lost for good, and with them the votes without which
nothing is written. Run it as root on the machine of that server, while the server
does not run; then start it as always. Where nobody can log in, have the server do
it while it runs: with --server, and --kubeconfig of an administrator. The others
join again with empty data directories.

It says what is lost, and asks. The store as it was stays beside the new one. It
refuses while most of the servers are there. Choose the server that was in step
last: what only the others had is lost. A reset that was interrupted is begun again
by the same command.

k3s has this as --cluster-reset, etcd as --force-new-cluster.`,
		Example: `  writ member reset
  writ member reset --server https://192.0.2.1:6443 --kubeconfig admin.kubeconfig`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			confirm := func(l member.Loss) error { return confirmReset(l, cmd.InOrStdin(), cmd.ErrOrStderr(), yes) }
			reset := a.resetHere
			if a.server != "" || a.kubeconfig != "" {
				reset = a.resetThere
			}
			loss, err := reset(cmd.Context(), cmd.ErrOrStderr(), confirm)
			if err != nil {
				return err
			}
			return writeReset(cmd.OutOrStdout(), loss, a.output == "json")
		},
	}
	cmd.Flags().StringVar(&a.dataDir, "data-dir", defaultDataDir, "`directory` of the server, which does not run")
	cmd.Flags().StringVar(&a.server, "server", "", "`URL` of the server, which runs")
	cmd.Flags().StringVar(&a.kubeconfig, "kubeconfig", "", "kubeconfig `file` for a server that runs; default: admin.kubeconfig of --data-dir")
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	outputFlag(cmd, &a.output)
	return cmd
}

// resetHere resets the server of a data directory of this machine.
func (a *access) resetHere(ctx context.Context, log io.Writer, confirm func(member.Loss) error) (member.Loss, error) {
	dir, err := filepath.Abs(a.dataDir)
	if err != nil {
		return member.Loss{}, fmt.Errorf("find --data-dir: %w", err)
	}
	begun, err := member.HasData(dir)
	if err != nil {
		return member.Loss{}, err
	}
	if !begun {
		return member.Loss{}, fmt.Errorf("there is no store of a server in %s: name one with --data-dir", dir)
	}
	release, err := cluster.Hold(dir)
	if err != nil {
		return member.Loss{}, err
	}
	defer release()
	r := member.Reset{DataDir: dir, Ask: cluster.AskMember(dir), Confirm: confirm, Now: time.Now(),
		Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelError}))}
	return r.Run(ctx)
}

// resetThere has a server that runs reset itself.
func (a *access) resetThere(ctx context.Context, _ io.Writer, confirm func(member.Loss) error) (member.Loss, error) {
	cfg, err := a.configOf(cmp.Or(a.kubeconfig, filepath.Join(a.dataDir, "admin.kubeconfig")))
	if err != nil {
		return member.Loss{}, err
	}
	h, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return member.Loss{}, fmt.Errorf("build HTTP client: %w", err)
	}
	c := member.Client{HTTP: h, Server: cfg.Host}
	loss, err := c.Reset(ctx, "")
	if err != nil || len(loss.Dropped) == 0 {
		return loss, err
	}
	if err := confirm(loss); err != nil {
		return loss, err
	}
	return c.Reset(ctx, loss.Name)
}

// confirmReset says what is going to be lost, and has the name of the server
// typed, unless --yes says that this is known.
func confirmReset(l member.Loss, in io.Reader, out io.Writer, yes bool) error {
	fmt.Fprintln(out, l.Text())
	if yes {
		return nil
	}
	if f, ok := in.(*os.File); !ok || !isatty.IsTerminal(f.Fd()) {
		return usageError{errors.New("there is no terminal to ask at: say --yes if that is what is to happen; nothing has changed")}
	}
	return typed(l.Name, in, out)
}

// typed asks for a name.
func typed(name string, in io.Reader, out io.Writer) error {
	fmt.Fprintf(out, "Type the name of this server (%s) to go on: ", name)
	line, err := bufio.NewReader(io.LimitReader(in, 1<<10)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read answer: %w", err)
	}
	if strings.TrimSpace(line) != name {
		return errors.New("that is not its name: nothing has changed")
	}
	return nil
}

func writeReset(w io.Writer, l member.Loss, asJSON bool) (err error) {
	switch {
	case asJSON:
		err = json.NewEncoder(w).Encode(l)
	case len(l.Dropped) == 0:
		_, err = fmt.Fprintln(w, "it is the only server of its cluster already: nothing to do")
	case l.Before == "":
		_, err = fmt.Fprintf(w, "%s starts again, as the only server of its cluster\n", l.Name)
	default:
		_, err = fmt.Fprintf(w, "%s is the only server of its cluster: start it\nwhat was there is in %s: remove it when all is well\n", l.Name, l.Before)
	}
	return err
}
