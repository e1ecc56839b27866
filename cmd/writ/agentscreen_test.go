package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

type finally struct{ error }

func (finally) Final() bool { return true }

// What keeps a machine with the node image from being a node is on its console,
// and is not said every second.
func TestScreen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		s := &screen{w: &b, wait: heldBack}
		log := s.log(slog.New(slog.DiscardHandler))
		log.With("part", "cache").Warn("not of interest")
		log.With("part", "join").Info("neither")
		log.With("part", "join").WithGroup("g").Warn("a clock is wrong", "secret", "token", "err", errors.New("this machine's clock says 2019"))
		begin := time.Now()
		why := fmt.Errorf("join the cluster: %w", finally{errors.New("wrong token")})
		if err := s.end(t.Context(), why); !errors.Is(err, why) || time.Since(begin) != heldBack {
			t.Errorf("%v after %s", err, time.Since(begin))
		}
		if want := "\r\nwrit: a clock is wrong: this machine's clock says 2019\r\n\r\nwrit: this machine is no node: join the cluster: wrong token\r\nwrit: it is tried again in 30s\r\n"; b.String() != want {
			t.Errorf("%q, want %q", b.String(), want)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		begin = time.Now()
		_ = s.end(ctx, why)                         // it is to end
		_ = s.end(t.Context(), errors.New("other")) // systemd starts it again
		_ = (&screen{}).end(t.Context(), why)       // no console
		if time.Since(begin) != 0 || strings.Contains(b.String(), "other") {
			t.Errorf("held back for %s: %q", time.Since(begin), &b)
		}
	})
}
