package source

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestCloneSurvivesARestart(t *testing.T) {
	w, bare, first := served(t)
	web := serveHTTP(t, bare)
	cfg := web.config(t)
	s := New(cfg)
	fetched(t, s, first)
	s.Close()

	before := web.sent.Load()
	s = New(cfg)
	fetched(t, s, first)
	if got := files(t, s, first); len(got) != 2 {
		t.Errorf("files = %q", got)
	}
	if sent := web.sent.Load() - before; sent > 1000 {
		t.Errorf("after a restart the server sent %d bytes", sent)
	}
	s.Close()

	w.git("reset", "-q", "--hard", first+"~1")
	next := w.commit("c", "3")
	w.push("--force", "main")
	s = New(cfg)
	if c := fetched(t, s, next); !c.Rewritten {
		t.Error("Rewritten = false after a reset that happened while nothing ran")
	}
	s.Close()

	w.git("checkout", "-q", "-b", "other")
	other := w.commit("d", "4")
	w.push("other")
	cfg.Branch = "other"
	s = New(cfg)
	defer s.Close()
	if c := fetched(t, s, other); c.Rewritten {
		t.Error("Rewritten = true for another branch")
	}
}

// Whatever a crash or a bad disk left, the clone is fetched again.
func TestDamagedCloneIsFetchedAgain(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, dir string){
		"no state":     func(t *testing.T, dir string) { remove(t, dir, "repository/writ.json") },
		"half a state": func(t *testing.T, dir string) { overwrite(t, dir, "repository/writ.json", 5) },
		"no pack":      func(t *testing.T, dir string) { remove(t, dir, "repository/objects/pack/*.pack") },
		"no index":     func(t *testing.T, dir string) { remove(t, dir, "repository/objects/pack/*.idx") },
		"half a pack":  func(t *testing.T, dir string) { overwrite(t, dir, "repository/objects/pack/*.pack", 60) },
		"empty index":  func(t *testing.T, dir string) { overwrite(t, dir, "repository/objects/pack/*.idx", 0) },
		"while replacing": func(t *testing.T, dir string) {
			rename(t, filepath.Join(dir, "repository"), filepath.Join(dir, "next"))
		},
		"flipped bits": func(t *testing.T, dir string) {
			name := must(filepath.Glob(filepath.Join(dir, "repository/objects/pack/*.pack")))[0]
			b := must(os.ReadFile(name))
			b[len(b)/2] ^= 0xff
			replace(t, name, b)
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, bare, first := served(t)
			cfg := serveHTTP(t, bare).config(t)
			s := New(cfg)
			fetched(t, s, first)
			s.Close()
			damage(t, cfg.Dir)
			s = New(cfg)
			defer s.Close()
			if c := fetched(t, s, first); c.Rewritten {
				t.Error("Rewritten = true")
			}
			if diff := cmp.Diff([]string{"a.yaml a: 1\n", "apps/web.yaml web\n"}, files(t, s, first)); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
		})
	}
}

func remove(t *testing.T, dir, pattern string) {
	t.Helper()
	for _, name := range must(filepath.Glob(filepath.Join(dir, pattern))) {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
}

func overwrite(t *testing.T, dir, pattern string, keep int) {
	t.Helper()
	for _, name := range must(filepath.Glob(filepath.Join(dir, pattern))) {
		replace(t, name, must(os.ReadFile(name))[:keep])
	}
}

func replace(t *testing.T, name string, data []byte) {
	t.Helper()
	if err := os.Chmod(name, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

// A disk that goes bad under a running source is noticed by a read, which asks
// for a new fetch.
func TestCloneDamagedWhileItIsRead(t *testing.T) {
	_, bare, first := served(t)
	cfg := serveHTTP(t, bare).config(t)
	s := New(cfg)
	defer s.Close()
	fetched(t, s, first)
	s.Close() // nothing is in memory
	overwrite(t, cfg.Dir, "repository/objects/pack/*.pack", 40)
	if _, err := s.Tree(first); err == nil {
		if got := files(t, s, first); !strings.HasPrefix(got[0], "error: ") {
			t.Fatalf("files = %q", got)
		}
	}
	select {
	case <-s.Changed():
	default:
		t.Fatal("no notice that there is something to fetch")
	}
	fetched(t, s, first)
	if got := files(t, s, first); len(got) != 2 || strings.HasPrefix(got[0], "error: ") {
		t.Errorf("files = %q", got)
	}
}

func TestInterruptedFetch(t *testing.T) {
	w, bare, first := served(t)
	web := serveHTTP(t, bare)
	s := New(web.config(t))
	defer s.Close()
	web.broken.Store(true)
	fails(t, s, ErrUnreachable)
	web.broken.Store(false)
	fetched(t, s, first)
	next := w.commit("a.yaml", "a: 2\n")
	w.push("main")
	web.broken.Store(true)
	fails(t, s, ErrUnreachable)
	if got := files(t, s, first); len(got) != 2 {
		t.Errorf("files after a fetch that broke off = %q", got)
	}
	web.broken.Store(false)
	fetched(t, s, next)
	if left := must(filepath.Glob(filepath.Join(s.cfg.Dir, "repository/objects/pack/tmp_*"))); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

func TestGrownCloneIsRenewed(t *testing.T) {
	w, bare, first := served(t)
	s := New(serveHTTP(t, bare).config(t))
	defer s.Close()
	fetched(t, s, first)
	head := first
	for range softPacks + 1 {
		head = w.commit("a.yaml", "a: "+head+"\n")
		w.push("main")
		fetched(t, s, head)
	}
	if _, n, _ := packs(filepath.Join(s.cfg.Dir, "repository")); n != softPacks+2 {
		t.Errorf("%d packs before", n)
	}
	if err := s.repo.tidy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, n, _ := packs(filepath.Join(s.cfg.Dir, "repository")); n != 1 {
		t.Errorf("%d packs after", n)
	}
	if c := fetched(t, s, head); c.Rewritten {
		t.Error("Rewritten = true")
	}
	if got := files(t, s, head); len(got) != 2 {
		t.Errorf("files = %q", got)
	}
	next := w.commit("a.yaml", "end\n")
	w.push("main")
	if c := fetched(t, s, next); c.Rewritten {
		t.Error("Rewritten = true after the clone was renewed")
	}
	if exists(filepath.Join(s.cfg.Dir, "next")) {
		t.Error("next is left behind")
	}
}

func TestPause(t *testing.T) {
	for _, tt := range []struct {
		cfg      Config
		failures int
		random   float64
		want     time.Duration
	}{
		{Config{Builtin: "x"}, 0, 0.5, 15 * time.Second},
		{Config{Builtin: "x"}, 0, 0, 13500 * time.Millisecond},
		{Config{URL: "x"}, 0, 0.5, time.Second},
		{Config{URL: "x", Interval: time.Minute}, 0, 0.5, time.Minute},
		{Config{URL: "https://host/x", Dir: "unused"}, 2, 0.5, time.Minute},
		{Config{URL: "https://host/x", Dir: "unused"}, 50, 0.5, 5 * time.Minute},
		{Config{URL: "https://host/x", Dir: "unused", Interval: time.Hour}, 3, 0.5, time.Hour},
	} {
		if got := New(tt.cfg).pause(tt.failures, tt.random); got != tt.want {
			t.Errorf("pause of %+v after %d failures = %s, want %s", tt.cfg, tt.failures, got, tt.want)
		}
	}
}
