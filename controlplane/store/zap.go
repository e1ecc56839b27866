package store

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// etcdLog is where etcd logs to: it writes warnings and errors to slog. etcd ends
// the process through its logger when its disk fails; here that ends the
// goroutine, and the message comes out of the channel.
type etcdLog struct {
	log     *slog.Logger
	fatal   chan string
	removed atomic.Bool // etcd says only here that it stops because of that

	mu   sync.Mutex
	said map[string]time.Time // by message
}

func newEtcdLog(log *slog.Logger) *etcdLog {
	return &etcdLog{log: log.With("part", "etcd"), fatal: make(chan string, 1), said: map[string]time.Time{}}
}

func (l *etcdLog) zap() *zap.Logger {
	return zap.New(&slogCore{etcdLog: l}, zap.WithFatalHook(zapcore.WriteThenGoexit))
}

// repeatAfter is how often one message is worth saying. When another member is
// away, etcd says so for every message that it cannot send.
const repeatAfter = 30 * time.Second

// again says whether a message was said a short time ago.
func (l *etcdLog) again(msg string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if last, ok := l.said[msg]; ok && now.Sub(last) < repeatAfter {
		return true
	}
	if len(l.said) > 1000 { // raft's have numbers in them
		clear(l.said)
	}
	l.said[msg] = now
	return false
}

// slogCore is a zapcore.Core over slog.
type slogCore struct {
	*etcdLog
	attrs []slog.Attr
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
	if harmless(e.Message) || c.again(e.Message, e.Time) {
		level = slog.LevelDebug
	}
	attrs := append(append([]slog.Attr(nil), c.attrs...), attrsOf(fields)...)
	c.log.LogAttrs(context.Background(), level, e.Message, attrs...) //nolint:sloglint // the message is etcd's
	for _, a := range attrs {
		if e.Message == "server error" && strings.Contains(a.Value.String(), "permanently removed") {
			c.removed.Store(true)
		}
	}
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
		"cannot campaign at term",            // a restart after the last thing was a change of members
		"leadership transfer failed",         // nobody is left to take it
		"rejecting promote learner",          // it is asked again and again
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
