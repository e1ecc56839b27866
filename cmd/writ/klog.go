package main

import (
	"context"
	"log/slog"

	"k8s.io/klog/v2"
)

// libraryLog brings what the libraries of Kubernetes log by
// themselves, on standard error in a form of its own, into the process's log.
// They log to one place per process: it is set once, before they run.
func libraryLog(log *slog.Logger) {
	klog.SetSlogLogger(slog.New(lowered{log.Handler()}).With("part", "library"))
}

// lowered shows a library's lines at the level that they have for us: what it
// calls an error has been handled where it was met, what it tells besides is
// for who looks for a bug.
type lowered struct{ slog.Handler }

// clientGone are errors that tell of a client which left without a word.
var clientGone = map[string]bool{"Error on socket receive": true}

func loweredLevel(l slog.Level, message string) slog.Level {
	switch {
	case l < slog.LevelInfo:
		return l - 4
	case l < slog.LevelError, clientGone[message]:
		return slog.LevelDebug
	}
	return slog.LevelWarn
}

// Enabled implements slog.Handler: nothing is shown higher than it came.
func (h lowered) Enabled(ctx context.Context, l slog.Level) bool {
	return h.Handler.Enabled(ctx, loweredLevel(l, ""))
}

// Handle implements slog.Handler.
func (h lowered) Handle(ctx context.Context, r slog.Record) error {
	r.Level = loweredLevel(r.Level, r.Message)
	if !h.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h lowered) WithAttrs(a []slog.Attr) slog.Handler { return lowered{h.Handler.WithAttrs(a)} }

// WithGroup implements slog.Handler.
func (h lowered) WithGroup(name string) slog.Handler { return lowered{h.Handler.WithGroup(name)} }
