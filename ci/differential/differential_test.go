package differential

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/writ-os/writ/ci/differential/exchange"
	"github.com/writ-os/writ/ci/freeport"
	"github.com/writ-os/writ/cmd/writ/cluster"
	"github.com/writ-os/writ/controlplane/auth/pki"
	"github.com/writ-os/writ/schema/podstandard"
)

var (
	update = flag.Bool("update", false, "write testdata/differences anew")
	diffs  = flag.String("diffs", "", "write all differences into this `directory`, a file per conversation")
)

// TestAnswers replays every conversation against this project's API server.
func TestAnswers(t *testing.T) {
	known, err := readDifferences(differencesFile)
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no conversations: %v", err)
	}
	server := newServer(t)
	seen, asked, differ := differences{}, 0, 0
	for _, path := range files {
		area := strings.TrimSuffix(filepath.Base(path), ".txtar")
		t.Run(area, func(t *testing.T) {
			var report strings.Builder
			err := replay(t, server, path, func(e *exchange.Exchange, diff string) {
				asked++
				id := area + "/" + e.Name
				why, listed := known[id]
				if strings.HasPrefix(why, "sometimes") { // a controller of the server's own is at work
					seen[id] = why
					return
				}
				if diff != "" {
					differ++
					seen[id] = why
					fmt.Fprintf(&report, "## %s\n%s %s\n```diff\n%s```\n\n", e.Name, e.Request.Method, e.Request.Path, diff)
				}
				switch {
				case diff != "" && !listed && !*update:
					t.Errorf("%s: %s %s (-upstream +ours)\n%s", e.Name, e.Request.Method, e.Request.Path, diff)
				case diff == "" && listed && !*update:
					t.Errorf("%s no longer differs: remove its line from %s, or run this test with -update", id, differencesFile)
				}
			})
			if err != nil {
				t.Error(err)
			}
			writeReport(t, area, report.String())
		})
	}
	t.Logf("%d exchanges, %d differ", asked, differ)
	if *update && !t.Failed() {
		if err := seen.write(differencesFile); err != nil {
			t.Fatal(err)
		}
	}
}

// replay plays a file and tells how each answer differs. An exchange that fails
// ends it: those after it build on it.
func replay(t *testing.T, s exchange.Server, path string, tell func(e *exchange.Exchange, difference string)) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	f, err := exchange.Parse(data)
	if err != nil {
		return err
	}
	return f.Play(t.Context(), s, func(e *exchange.Exchange, got string) {
		if e.Response == "" {
			t.Errorf("%s is not recorded", e.Name)
		}
		tell(e, lineDiff(e.Response, got))
	})
}

// lineDiff shows the lines that differ, and some around them.
func lineDiff(want, got string) string {
	text := string(diff.Diff("upstream", []byte(want), "ours", []byte(got)))
	if i := strings.Index(text, "@@"); i > 0 {
		text = text[i:]
	}
	return text
}

func writeReport(t *testing.T, area, text string) {
	if *diffs == "" {
		return
	}
	path := filepath.Join(*diffs, area+".md")
	if text == "" {
		_ = os.Remove(path)
		return
	}
	if err := os.WriteFile(path, []byte("# "+area+": - upstream, + ours\n\n"+text), 0o644); err != nil {
		t.Error(err)
	}
}

// newServer starts the control plane without its loops, on nothing.
func newServer(t *testing.T) exchange.Server { return startServer(t, t.TempDir()) }

// startServer starts it on a data directory. It ends with the test.
func startServer(t *testing.T, dir string) exchange.Server {
	t.Helper()
	addr := freeport.Local(t)
	p := cluster.NewControlPlane(cluster.Config{DataDir: dir, Listen: addr, NodeName: "none", Still: true,
		// Upstream's server reads the data, and enforces no Pod Security Standard
		// where a namespace says nothing.
		API: cluster.API{EncryptionFile: cluster.NoEncrypts, PodSecurity: &podstandard.Config{}},
		Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("control plane: %v", err)
		}
	})
	select {
	case <-p.Ready():
	case err := <-done:
		done <- nil
		t.Fatalf("start control plane: %v", err)
	case <-time.After(time.Minute):
		t.Fatal("the control plane was not ready within a minute")
	}
	authority, err := pki.Open(pki.Config{Dir: filepath.Join(dir, "pki")})
	if err != nil {
		t.Fatal(err)
	}
	users := exchange.NewUsers(authority)
	t.Cleanup(users.Close)
	return exchange.Server{URL: "https://" + addr, Client: users.Client}
}
