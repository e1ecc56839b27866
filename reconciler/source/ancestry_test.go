package source

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
)

// What is said of the history is what git says, though the clone begins with
// one commit.
func TestHistoryIsBroughtWhenAsked(t *testing.T) {
	for _, kind := range []string{"local", "https", "ssh"} {
		t.Run(kind, func(t *testing.T) {
			w := newWork(t)
			bare := w.bare()
			w.commit("a.yaml", "one\ntwo\nthree\n")
			base := w.commit("b.yaml", "b\n")
			w.git("checkout", "-q", "-b", "side")
			w.commit("a.yaml", "one\n2\nthree\n")
			w.commit("c.yaml", "c\n")
			w.git("checkout", "-q", "main")
			w.commit("a.yaml", "zero\none\ntwo\nthree\n")
			w.git("merge", "-q", "--no-edit", "side")
			w.git("mv", "a.yaml", "moved.yaml")
			w.commit()
			for i := range 120 { // further than one deepening
				w.commit("n.yaml", fmt.Sprint(i))
			}
			head := w.git("rev-parse", "HEAD")
			w.push("main")
			cfg := Config{URL: bare}
			switch kind {
			case "https":
				cfg = serveHTTP(t, bare).config(t)
			case "ssh":
				host := serveSSH(t)
				cfg = Config{URL: "ssh://" + host.addr + bare, Dir: t.TempDir(), Auth: Auth{SSHKey: host.key, KnownHosts: host.known}}
			}
			s := New(cfg)
			defer s.Close()
			fetched(t, s, head)
			checkBlame(t, w, s, head)
			checkRange(t, w, s, base, head)
			old := w.git("rev-parse", base+"~1")
			if c, err := s.Bring(t.Context(), old); err != nil || c.SHA != old {
				t.Fatalf("Bring = %+v, %v", c, err)
			}
			if got := files(t, s, old); len(got) != 1 {
				t.Errorf("files = %q", got)
			}
			if _, err := s.Bring(t.Context(), strings.Repeat("1", 40)); !errors.Is(err, ErrMissing) {
				t.Errorf("Bring of no commit = %v", err)
			}
			next := w.commit("a.yaml", "after\n")
			w.push("main")
			fetched(t, s, next)
			if n, err := s.Range(t.Context(), head, next); err != nil || len(n) != 1 || n[0].SHA != next || n[0].Parents[0] != head {
				t.Errorf("Range = %+v, %v", n, err)
			}
		})
	}
}

func checkBlame(t *testing.T, w *work, s *Source, head string) {
	t.Helper()
	for line := 1; line <= 4; line++ {
		want := strings.Fields(w.git("blame", "-l", "-s", "--porcelain", fmt.Sprintf("-L%d,%d", line, line), head, "--", "moved.yaml"))[0]
		got, err := s.Blame(t.Context(), head, "moved.yaml", line)
		if err != nil || got.SHA != want || got.Boundary || got.Path != "a.yaml" || got.Author != "Ann <ann@example.com>" {
			t.Errorf("Blame of line %d = %+v, %v; want %s", line, got, err, want)
		}
	}
	for _, at := range []struct {
		path string
		line int
	}{{"moved.yaml", 5}, {"moved.yaml", 0}, {"nothing", 1}} {
		if _, err := s.Blame(t.Context(), head, at.path, at.line); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("Blame of %s:%d = %v", at.path, at.line, err)
		}
	}
	var log []string
	for _, c := range must(s.Log(t.Context(), head, "moved.yaml", 10)) {
		log = append(log, c.SHA)
	}
	if want := strings.Fields(w.git("log", "--format=%H", head, "--", "moved.yaml")); !slices.Equal(log, want) {
		t.Errorf("Log = %v, want %v", log, want)
	}
}

func checkRange(t *testing.T, w *work, s *Source, base, head string) {
	t.Helper()
	for _, from := range []string{base, "", head} {
		nodes, err := s.Range(t.Context(), from, head)
		if err != nil {
			t.Fatal(err)
		}
		args := []string{"rev-list", "--parents", head}
		if from != "" {
			args = append(args, "^"+from)
		}
		var got []string
		seen := map[string]bool{}
		for _, n := range nodes {
			got = append(got, strings.Join(append([]string{n.SHA}, n.Parents...), " "))
			for _, p := range n.Parents {
				if !seen[p] && slices.ContainsFunc(nodes, func(o Node) bool { return o.SHA == p }) {
					t.Errorf("%s stands before its parent %s", n.SHA, p)
				}
			}
			seen[n.SHA] = true
		}
		want := strings.FieldsFunc(w.git(args...), func(r rune) bool { return r == '\n' })
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("Range from %q: %d commits, want %d", from, len(got), len(want))
		}
	}
	for _, tt := range []struct {
		a, b string
		want bool
	}{{base, head, true}, {head, base, false}, {head, head, true}, {strings.Repeat("1", 40), head, false}} {
		if got, err := s.IsAncestor(t.Context(), tt.a, tt.b); err != nil || got != tt.want {
			t.Errorf("IsAncestor(%s, %s) = %v, %v", tt.a, tt.b, got, err)
		}
	}
	if _, err := s.Range(t.Context(), strings.Repeat("1", 40), head); !errors.Is(err, ErrMissing) {
		t.Errorf("Range from no commit: %v", err)
	}
}

func TestRaw(t *testing.T) {
	w := newWork(t)
	sha := w.commit("a.yaml", "a\n")
	s := New(Config{URL: w.dir})
	defer s.Close()
	if got, err := s.Raw(sha); err != nil || strings.TrimSpace(string(got)) != w.git("cat-file", "commit", sha) {
		t.Errorf("Raw = %q, %v", got, err)
	}
	if _, err := s.Raw(w.git("rev-parse", "HEAD^{tree}")); err == nil {
		t.Error("Raw of a tree")
	}
}

func TestLineBefore(t *testing.T) {
	before := "a\nb\nc\nd"
	for after, want := range map[string][]int{
		"a\nb\nc\nd":       {1, 2, 3, 4},
		"x\na\nb\nc\nd":    {0, 1, 2, 3, 4},
		"b\nc\nx\nd":       {2, 3, 0, 4},
		"a\nB\nc\nd":       {1, 0, 3, 4},
		"d":                {4},
		"new\nfile\nwhole": {0, 0, 0},
	} {
		for i, w := range want {
			if got := lineBefore(before, after, i+1); got != w {
				t.Errorf("line %d of %q was %d, want %d", i+1, after, got, w)
			}
		}
	}
}
