package source

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
)

// branchFake is a repository that has a head, or an error.
type branchFake struct {
	repository

	mu    sync.Mutex
	at    plumbing.Hash
	err   error
	asked int
}

func (b *branchFake) set(at plumbing.Hash, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.at, b.err = at, err
}

func (b *branchFake) head(context.Context) (plumbing.Hash, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked++
	return b.at, b.err
}
func (b *branchFake) tidy(context.Context) error { return nil }
func (b *branchFake) close() error               { return nil }

func TestRunNotifiesOfNewHeadsAndFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		two := plumbing.NewHash("0000000000000000000000000000000000000002")
		repo := &branchFake{at: plumbing.NewHash("0000000000000000000000000000000000000001")}
		s := New(Config{URL: "https://host/x", Dir: "unused", Interval: 10 * time.Second})
		s.repo = repo
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- s.Run(ctx) }()
		noticed := func(d time.Duration) (n int) {
			for until := time.After(d); ; {
				select {
				case <-s.Changed():
					n++
				case <-until:
					return n
				}
			}
		}
		for _, step := range []struct {
			what   string
			change func()
			want   int
		}{
			{"first answer", func() {}, 1},
			{"nothing new", func() {}, 0},
			{"new head", func() { repo.set(two, nil) }, 1},
			{"failure", func() { repo.set(two, errors.New("unplugged")) }, 1},
			{"the same failure", func() {}, 0},
			{"back with the same head", func() { repo.set(two, nil) }, 1},
			{"told", s.Notify, 1},
		} {
			step.change()
			if got := noticed(10 * time.Minute); got != step.want {
				t.Errorf("%s: %d notices, want %d", step.what, got, step.want)
			}
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestRunAsksLessOftenWhileItFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		repo := &branchFake{err: errors.New("unplugged")}
		s := New(Config{URL: "https://host/x", Dir: "unused"})
		s.repo = repo
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := s.Run(ctx); err != nil {
			t.Error(err)
		}
		if n := repo.asked; n < 11 || n > 20 {
			t.Errorf("asked %d times in an hour", n)
		}
	})
}

func TestPollSeesAPush(t *testing.T) {
	w, bare, first := served(t)
	s := New(serveHTTP(t, bare).config(t))
	defer s.Close()
	fetched(t, s, first)
	if !s.poll(t.Context()) || len(s.Changed()) != 0 {
		t.Error("a poll with nothing new gives notice, or fails")
	}
	w.commit("a.yaml", "2")
	w.push("main")
	if !s.poll(t.Context()) || len(s.Changed()) != 1 {
		t.Error("a poll after a push gives no notice, or fails")
	}
}

func TestRunWithABadConfig(t *testing.T) {
	s := New(Config{URL: "gopher://x"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Run(ctx); err != nil {
		t.Error(err)
	}
	fails(t, s, ErrConfig)
}
