package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/writ-os/writ/controlplane/client"
)

// logFlags say which part of a log is wanted.
type logFlags struct {
	since, until, grep string
	tail, boot         int
	follow             bool
}

// defaultTail is how many lines are printed of a log that is not bounded
// otherwise.
const defaultTail = 200

func logsCommand() *cobra.Command {
	var a access
	var f logFlags
	cmd := &cobra.Command{
		Use:   "logs node/NAME [SERVICE...]",
		Short: "Print the logs of a node's own services",
		Long: `Logs prints what the services of a node have logged: writ-agent, writ-server,
containerd, and "kernel" for the kernel. Without a service it prints the names of
those that there are. Logs of pods: 'kubectl logs'.

It asks the node through the API server, as upstream's node log query does
(kubectl get --raw "/api/v1/nodes/NAME/proxy/logs/?query=SERVICE"), and needs the
right to get nodes/proxy, which a viewer does not have. Without --kubeconfig and
$KUBECONFIG it uses the admin.kubeconfig of --data-dir.

Exit code 0: printed, 1: failure, or a service without a log, 2: wrong usage.`,
		Example: `  writ logs node/worker-1
  writ logs node/worker-1 writ-agent --since 10m -f
  writ logs node/worker-1 kernel --boot -1 --tail 100`,
		Args:              args(cobra.MinimumNArgs(1)),
		ValidArgsFunction: a.completeLogs,
		RunE: func(cmd *cobra.Command, words []string) error {
			boot := cmd.Flags().Changed("boot")
			if !cmd.Flags().Changed("tail") && (f.since != "" || boot) {
				f.tail = -1
			}
			query, err := f.query(words[1:], boot, time.Now())
			if err != nil {
				return usageError{err}
			}
			node, err := nodeName(words[0])
			if err != nil {
				return usageError{err}
			}
			ctx, cancel := cmd.Context(), context.CancelFunc(func() {})
			if !f.follow {
				ctx, cancel = context.WithTimeout(ctx, time.Minute) // the node itself takes half of it
			}
			defer cancel()
			return a.logs(ctx, cmd.OutOrStdout(), node, query)
		},
	}
	a.clusterFlags(cmd)
	flags := cmd.Flags()
	flags.IntVar(&f.tail, "tail", defaultTail, "`number` of lines from the end, at most 100000; -1, and the default with --since or --boot: all")
	flags.StringVar(&f.since, "since", "", "only what is newer: a `duration` like 10m, or a time like 2026-11-22T02:00:00Z")
	flags.StringVar(&f.until, "until", "", "only what is older: a `duration` or a time")
	flags.StringVar(&f.grep, "grep", "", "only lines that match this regular `expression`")
	flags.IntVar(&f.boot, "boot", 0, "only this start of the machine: 0 is the last, -1 the one before")
	flags.BoolVarP(&f.follow, "follow", "f", false, "go on with what comes")
	return cmd
}

// nodeName reads node/NAME.
func nodeName(word string) (string, error) {
	kind, name, ok := strings.Cut(word, "/")
	if !ok || name == "" || strings.Contains(name, "/") || !slices.Contains([]string{"node", "nodes", "no"}, kind) {
		return "", fmt.Errorf("%q: want node/NAME; logs of pods: 'kubectl logs'", word)
	}
	return name, nil
}

// query is the question in the words of a node's /logs/; empty without
// services.
func (f *logFlags) query(services []string, boot bool, now time.Time) (url.Values, error) {
	if len(services) == 0 {
		if f.follow || f.since != "" || f.until != "" || f.grep != "" || boot {
			return nil, errors.New("name a service: without one its names alone are printed")
		}
		return nil, nil
	}
	q := url.Values{"query": services}
	for name, given := range map[string]string{"sinceTime": f.since, "untilTime": f.until} {
		if given == "" {
			continue
		}
		t, err := timeOf(given, now)
		if err != nil {
			return nil, err
		}
		q.Set(name, t.UTC().Format(time.RFC3339Nano))
	}
	if f.tail >= 0 {
		q.Set("tailLines", strconv.Itoa(f.tail))
	}
	if boot {
		q.Set("boot", strconv.Itoa(f.boot))
	}
	if f.grep != "" {
		q.Set("pattern", f.grep)
	}
	if f.follow {
		q.Set("follow", "true")
	}
	return q, nil
}

// timeOf reads a time, or how long ago one was.
func timeOf(s string, now time.Time) (time.Time, error) {
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return t, fmt.Errorf("%q: want a duration like 10m or a time like 2026-11-22T02:00:00Z", s)
	}
	return t, nil
}

// logs asks a node, and copies its answer.
func (a *access) logs(ctx context.Context, w io.Writer, node string, q url.Values) error {
	res, err := a.askNode(ctx, node, q)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	missing := res.Header.Values("Writ-Log-Not-Found")
	if len(missing) == 0 || len(missing) < len(q["query"]) {
		if _, err := io.Copy(w, res.Body); err != nil && !errors.Is(ctx.Err(), context.Canceled) {
			return fmt.Errorf("read log of node %s: %w", node, err)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("node %s has no log of %s: 'writ logs node/%s' prints what it has", node, strings.Join(missing, ", "), node)
	}
	return nil
}

// maxRefusal bounds what is read of a refusal, in bytes.
const maxRefusal = 64 << 10

// askNode begins an answer of a node. A refusal is an error.
func (a *access) askNode(ctx context.Context, node string, q url.Values) (*http.Response, error) {
	cfg, err := a.configOf(cmp.Or(a.kubeconfig, os.Getenv("KUBECONFIG"), filepath.Join(a.dataDir, "admin.kubeconfig")))
	if err != nil {
		return nil, err
	}
	cfg.UserAgent = "writ/" + version
	base, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("read address of the server: %w", err)
	}
	c, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("build HTTP client: %w", err)
	}
	u := base.JoinPath("api/v1/nodes", url.PathEscape(node), "proxy/logs/")
	u.RawQuery = q.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	res, err := c.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask node %s: %w", node, err)
	}
	if res.StatusCode == http.StatusOK {
		return res, nil
	}
	defer res.Body.Close()
	return nil, refusal(res)
}

// refusal says why there is no answer: the API server writes a Status, a node
// plain text.
func refusal(res *http.Response) error {
	b, err := io.ReadAll(io.LimitReader(res.Body, maxRefusal))
	if err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	text := strings.TrimSpace(string(b))
	var st metav1.Status
	if json.Unmarshal(b, &st) == nil && st.Message != "" {
		text = st.Message
	}
	switch {
	case res.StatusCode == http.StatusForbidden:
		text += ". Logs of a node need the right to get nodes/proxy: name credentials that have it with --kubeconfig; on a server root has admin.kubeconfig"
	case text == "":
		text = res.Status
	}
	return errors.New(text)
}

// completeLogs offers nodes, and then the services of the one that was named.
func (a *access) completeLogs(cmd *cobra.Command, words []string, begun string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), completeTimeout)
	defer cancel()
	var offer []string
	if len(words) == 0 {
		offer = a.nodes(ctx)
	} else if node, err := nodeName(words[0]); err == nil {
		offer = a.services(ctx, node)
	}
	offer = slices.DeleteFunc(offer, func(s string) bool { return !strings.HasPrefix(s, begun) || slices.Contains(words, s) })
	return offer, cobra.ShellCompDirectiveNoFileComp
}

func (a *access) nodes(ctx context.Context) []string {
	c, err := a.client()
	if err != nil {
		return nil
	}
	all, err := client.ListAll[*corev1.Node](ctx, c, client.ListOptions{})
	if err != nil {
		return nil
	}
	var out []string
	for _, n := range all {
		out = append(out, "node/"+n.Name)
	}
	return out
}

func (a *access) services(ctx context.Context, node string) []string {
	res, err := a.askNode(ctx, node, nil)
	if err != nil {
		return nil
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, maxRefusal))
	if err != nil {
		return nil
	}
	return strings.Fields(string(b))
}
