package receive

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	"net/http"

	"github.com/writ-os/writ/reconciler/sandbox"
)

// serveUntilKilled is the process that the test kills: it serves dir, collects
// garbage without a pause, and prints where it listens.
func serveUntilKilled(dir string) {
	r := New(Config{Dir: dir, Names: []string{"cluster"}, Grace: -time.Hour, Log: slog.New(slog.DiscardHandler), Sandbox: sandbox.New(sandbox.Config{})})
	if err := r.Open(); err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		u := &user.DefaultInfo{Name: "pusher", Groups: []string{"writ:pushers"}}
		r.ServeHTTP(w, req.WithContext(request.WithUser(req.Context(), u)))
	}))
	fmt.Println("http", s.URL)
	for {
		_, _ = r.GC(context.Background(), "cluster")
		time.Sleep(time.Millisecond)
	}
}

// start starts the process and returns where it listens.
func start(t *testing.T, dir string) (cmd *exec.Cmd, url string) {
	t.Helper()
	return spawn(t, "RECEIVE_SERVE="+dir)
}

// spawn starts this test as a process of the kind that a variable asks for, and
// returns where it listens.
func spawn(t *testing.T, variable string) (cmd *exec.Cmd, url string) {
	t.Helper()
	cmd = exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), variable)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	url, ok := strings.CutPrefix(strings.TrimSpace(line), "http ")
	if err != nil || !ok {
		t.Fatalf("%q %v", line, err)
	}
	return cmd, url + "/git/cluster.git"
}

// Killed at random moments of pushes and collections, the repository has each
// ref either as before or as after, and everything that refs refer to. SEED
// replays a run.
func TestKilledAtRandom(t *testing.T) {
	seed, err := strconv.ParseUint(os.Getenv("SEED"), 10, 64)
	if err != nil {
		seed = uint64(time.Now().UnixNano())
	}
	rounds := 12
	if testing.Short() {
		rounds = 3
	}
	t.Logf("SEED=%d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	dir, clone := t.TempDir(), t.TempDir()
	git(t, clone, "init", "-q", "-b", "main")
	repo := filepath.Join(dir, "cluster.git")
	head, pushes := "", 0
	for round := range rounds {
		cmd, url := start(t, dir)
		killed := make(chan struct{})
		kill := time.AfterFunc(time.Duration(random.IntN(1200))*time.Millisecond, func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			close(killed)
		})
		var next string
		for n := 0; ; n++ {
			write(t, clone, map[string]string{"a": fmt.Sprint(round, n), "big": strings.Repeat(fmt.Sprint(n), random.IntN(100_000))})
			next = commit(t, clone, "x")
			if _, err := tryGit(t, clone, "push", "-q", url, "main", "main:side"+fmt.Sprint(n)); err != nil {
				break
			}
			head = next
			pushes++
			if _, err := tryGit(t, clone, "push", "-q", url, ":side"+fmt.Sprint(n)); err != nil {
				break
			}
		}
		kill.Stop()
		select {
		case <-killed:
		case <-time.After(time.Minute):
			t.Fatal("a push failed though the process was not killed")
		}
		r := New(Config{Dir: dir, Names: []string{"cluster"}})
		if err := r.Open(); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		git(t, repo, "fsck", "--full", "--strict")
		at, _ := tryGit(t, repo, "rev-parse", "--verify", "-q", "main")
		if at = strings.TrimSpace(at); at != head && at != next {
			t.Fatalf("round %d: main is %q, neither %s nor %s", round, at, head, next)
		}
		if at == "" {
			git(t, clone, "update-ref", "-d", "HEAD")
			continue
		}
		head = at
		git(t, clone, "reset", "-q", "--hard", at)
	}
	t.Logf("%d pushes were accepted", pushes)
}
