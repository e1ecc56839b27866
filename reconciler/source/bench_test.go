package source

import (
	"strings"
	"testing"
)

const benchFiles = 10_000

func benchRepo(b *testing.B) (w *work, bare string, heads [2]string) {
	w = newWork(b)
	bare = w.bare()
	heads[0] = w.commit(manyFiles(benchFiles)...)
	heads[1] = w.commit("apps/07/web-0007.yaml", "kind: Secret\n")
	w.push("main")
	return w, bare, heads
}

func BenchmarkClone(b *testing.B) {
	_, bare, _ := benchRepo(b)
	cfg := serveHTTP(b, bare).config(b)
	for b.Loop() {
		cfg.Dir = b.TempDir()
		s := New(cfg)
		if _, err := s.Fetch(b.Context()); err != nil {
			b.Fatal(err)
		}
		s.Close()
	}
}

func BenchmarkRestart(b *testing.B) {
	_, bare, _ := benchRepo(b)
	cfg := serveHTTP(b, bare).config(b)
	for b.Loop() {
		s := New(cfg)
		if _, err := s.Fetch(b.Context()); err != nil {
			b.Fatal(err)
		}
		s.Close()
	}
}

// BenchmarkFetch brings one commit that changes one file, and back.
func BenchmarkFetch(b *testing.B) {
	w, bare, heads := benchRepo(b)
	s := New(serveHTTP(b, bare).config(b))
	defer s.Close()
	if _, err := s.Fetch(b.Context()); err != nil {
		b.Fatal(err)
	}
	last := heads[1]
	for b.Loop() {
		b.StopTimer()
		next := w.commit("apps/07/web-0007.yaml", last)
		w.push("main")
		b.StartTimer()
		if _, err := s.Fetch(b.Context()); err != nil {
			b.Fatal(err)
		}
		if changes, err := s.Diff(last, next); err != nil || len(changes) != 1 {
			b.Fatal(changes, err)
		}
		last = next
	}
}

func BenchmarkPoll(b *testing.B) {
	_, bare, _ := benchRepo(b)
	b.Run("https", func(b *testing.B) { benchPoll(b, serveHTTP(b, bare).config(b)) })
	b.Run("local", func(b *testing.B) { benchPoll(b, Config{Builtin: bare}) })
}

func benchPoll(b *testing.B, cfg Config) {
	s := New(cfg)
	defer s.Close()
	if _, err := s.Fetch(b.Context()); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if !s.poll(b.Context()) {
			b.Fatal("no answer")
		}
	}
}

func BenchmarkWalk(b *testing.B) {
	_, bare, heads := benchRepo(b)
	for _, name := range []string{"first", "again", "read"} {
		b.Run(name, func(b *testing.B) {
			s := New(Config{Builtin: bare})
			defer s.Close()
			for b.Loop() {
				if name != "again" {
					s = New(Config{Builtin: bare})
				}
				tree, err := s.Tree(heads[1])
				if err != nil {
					b.Fatal(err)
				}
				n := 0
				for f, err := range tree.Walk(".") {
					if err != nil {
						b.Fatal(err)
					}
					if n++; name == "read" && !strings.HasPrefix(content(b, f), "kind") {
						b.Fatal(f.Path)
					}
				}
				if n != benchFiles {
					b.Fatal(n)
				}
				if name != "again" {
					s.Close()
				}
			}
		})
	}
}

func BenchmarkDiff(b *testing.B) {
	_, bare, heads := benchRepo(b)
	s := New(Config{Builtin: bare})
	defer s.Close()
	for b.Loop() {
		if changes, err := s.Diff(heads[0], heads[1]); err != nil || len(changes) != 1 {
			b.Fatal(changes, err)
		}
	}
}
