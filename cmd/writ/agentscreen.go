package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/writ-os/writ/image/config"
)

// heldBack is how long an agent that was refused waits before systemd starts it
// again: what it was refused for may be mended on the server.
const heldBack = 30 * time.Second

// screen is the console of a machine with the node image. Nobody can log in there,
// and as long as the machine is no node nobody reads its journal either: so what
// keeps it from being one is said on the console, too. Elsewhere it is nothing.
type screen struct {
	w     io.Writer // nil: nothing
	wait  time.Duration
	close func()
}

func newScreen() *screen {
	_, err := os.Stat(filepath.Join(config.RunDir, "agent.env"))
	if err != nil || os.Getenv("INVOCATION_ID") == "" {
		return &screen{close: func() {}}
	}
	w, done := console()
	return &screen{w, heldBack, done}
}

// log also shows on the console what is warned of while the machine joins.
func (s *screen) log(l *slog.Logger) *slog.Logger {
	if s.w == nil {
		return l
	}
	return slog.New(shown{l.Handler(), s.w, false})
}

// end says why the agent ends, and holds an agent back whose next start would be
// refused for the same.
func (s *screen) end(ctx context.Context, err error) error {
	var final interface{ Final() bool }
	if s.w == nil || !errors.As(err, &final) || !final.Final() {
		return err
	}
	fmt.Fprintf(s.w, "\r\nwrit: this machine is no node: %v\r\nwrit: it is tried again in %s\r\n", err, s.wait)
	select {
	case <-ctx.Done():
	case <-time.After(s.wait):
	}
	return err
}

// shown is a log of which warnings about joining are shown.
type shown struct {
	slog.Handler
	w     io.Writer
	joins bool
}

// Enabled implements slog.Handler: the console does not depend on --log-level.
func (h shown) Enabled(ctx context.Context, l slog.Level) bool {
	return h.joins && l >= slog.LevelWarn || h.Handler.Enabled(ctx, l)
}

// Handle implements slog.Handler.
func (h shown) Handle(ctx context.Context, r slog.Record) error {
	if h.joins && r.Level >= slog.LevelWarn {
		why := ""
		r.Attrs(func(a slog.Attr) bool {
			if a.Key == "err" {
				why = ": " + a.Value.String()
			}
			return true
		})
		fmt.Fprintf(h.w, "\r\nwrit: %s%s\r\n", r.Message, why)
	}
	if !h.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h shown) WithAttrs(a []slog.Attr) slog.Handler {
	joins := h.joins
	for _, x := range a {
		joins = joins || x.Key == "part" && x.Value.String() == "join"
	}
	return shown{h.Handler.WithAttrs(a), h.w, joins}
}

// WithGroup implements slog.Handler.
func (h shown) WithGroup(name string) slog.Handler {
	return shown{h.Handler.WithGroup(name), h.w, h.joins}
}
