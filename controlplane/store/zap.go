package store

import (
	"context"
	"log/slog"
	"strings"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// zapBridge gives etcd a logger that writes warnings and errors to slog. etcd
// ends the process through its logger when its disk fails; here that ends the
// goroutine, and the message comes out of the channel.
func zapBridge(log *slog.Logger) (*zap.Logger, <-chan string) {
	fatal := make(chan string, 1)
	core := &slogCore{log: log.With("part", "etcd"), fatal: fatal}
	return zap.New(core, zap.WithFatalHook(zapcore.WriteThenGoexit)), fatal
}

// slogCore is a zapcore.Core over slog.
type slogCore struct {
	log   *slog.Logger
	attrs []slog.Attr
	fatal chan string
}

// Enabled implements zapcore.LevelEnabler: etcd's infos are of no use here.
func (c *slogCore) Enabled(l zapcore.Level) bool { return l >= zapcore.WarnLevel }

// With implements zapcore.Core.
func (c *slogCore) With(fields []zapcore.Field) zapcore.Core {
	d := *c
	d.attrs = append(append([]slog.Attr(nil), c.attrs...), attrsOf(fields)...)
	return &d
}

// Check implements zapcore.Core.
func (c *slogCore) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return ce.AddCore(e, c)
	}
	return ce
}

// Write implements zapcore.Core.
func (c *slogCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	level := slog.LevelWarn
	if e.Level > zapcore.WarnLevel {
		level = slog.LevelError
	}
	if harmless(e.Message) {
		level = slog.LevelDebug
	}
	attrs := append(append([]slog.Attr(nil), c.attrs...), attrsOf(fields)...)
	c.log.LogAttrs(context.Background(), level, e.Message, attrs...) //nolint:sloglint // the message is etcd's
	if e.Level == zapcore.FatalLevel {
		text := e.Message
		for _, a := range attrs {
			text += " " + a.String()
		}
		select {
		case c.fatal <- text:
		default:
		}
	}
	return nil
}

// Sync implements zapcore.Core.
func (c *slogCore) Sync() error { return nil }

// harmless are what etcd warns of in every life of a healthy single member.
func harmless(msg string) bool {
	for _, s := range []string{
		"Failed to detect schema version",    // the first start of a member: it has none yet
		"failed to update storage version",   // the same
		"failed to update cluster version",   // a stop soon after the start
		"exceeded recommended request limit", // a commit is one transaction, however large
		"simple token is not cryptographically signed",
	} {
		if strings.Contains(msg, s) {
			return true
		}
	}
	return false
}

func attrsOf(fields []zapcore.Field) []slog.Attr {
	enc := zapcore.NewMapObjectEncoder()
	for _, f := range fields {
		f.AddTo(enc)
	}
	attrs := make([]slog.Attr, 0, len(enc.Fields))
	for k, v := range enc.Fields {
		attrs = append(attrs, slog.Any(k, v))
	}
	return attrs
}
