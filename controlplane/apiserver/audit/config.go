package audit

import (
	_ "embed"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"gopkg.in/natefinch/lumberjack.v2"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/audit/policy"
	"k8s.io/apiserver/plugin/pkg/audit/buffered"
	auditlog "k8s.io/apiserver/plugin/pkg/audit/log"
	"k8s.io/apiserver/plugin/pkg/audit/truncate"
)

// The modes of writing, with the words of --audit-log-mode.
const (
	// Blocking writes before the request goes on, and goes on where the write
	// failed. The default of a log.
	Blocking = "blocking"
	// BlockingStrict refuses requests whose receipt could not be written.
	BlockingStrict = "blocking-strict"
	// Batch writes in the background, and drops events where that falls behind.
	Batch = "batch"
)

// Off as the path of the log records nothing.
const Off = "none"

// Config says what is recorded and where. The names and defaults are those of
// the --audit-* flags of kube-apiserver.
type Config struct {
	// PolicyFile holds an audit.k8s.io/v1 Policy. "" is a policy of our own:
	// policy.yaml.
	PolicyFile string
	// LogPath is the file of the log; "-" is standard output. Required.
	LogPath string
	// MaxAge is how many days an old file is kept, MaxBackups how many are
	// kept; 0 keeps all. MaxSize is the size in megabytes at which a file is
	// closed; 0 means 100.
	MaxAge, MaxBackups, MaxSize int
	// Compress old files with gzip.
	Compress bool
	// Format is "json" (default) or "legacy".
	Format string
	// Mode is Blocking (default), BlockingStrict or Batch.
	Mode string
	// MaxEventSize bounds one event in bytes: the bodies of larger ones are
	// dropped and an annotation says so. 0 does not bound.
	MaxEventSize int64
}

// backups is how many old files are kept of a log that nobody asked for: with
// that which is written half a gigabyte, which a small disk can spare.
const backups = 4

// In returns the settings with a log in a file of the server where they name
// none: it is bounded, because nobody looks after it.
func (c Config) In(file string) Config {
	if c.LogPath == "" {
		c.LogPath = file
		if c.MaxBackups == 0 {
			c.MaxBackups = backups
		}
	}
	return c
}

//go:embed policy.yaml
var ownPolicy []byte

func readPolicy(file string) (*auditinternal.Policy, error) {
	if file == "" {
		return policy.LoadPolicyFromBytes(ownPolicy)
	}
	return policy.LoadPolicyFromFile(file)
}

// batch is what upstream's log backend uses in batch mode.
var batch = buffered.BatchConfig{BufferSize: 10000, MaxBatchSize: 1, AsyncDelegate: false}

// maxBatchSize is upstream's bound for what is written at once.
const maxBatchSize = 10 << 20

// New opens the log. It starts nothing.
func New(cfg Config) (*Trail, error) {
	p, err := readPolicy(cfg.PolicyFile)
	if err != nil {
		return nil, fmt.Errorf("read audit policy: %w", err)
	}
	if cfg.Format == "" {
		cfg.Format = auditlog.FormatJson
	}
	if !slices.Contains(auditlog.AllowedFormats, cfg.Format) {
		return nil, fmt.Errorf("open audit log: format %q is none of %q", cfg.Format, auditlog.AllowedFormats)
	}
	if cfg.Mode == "" {
		cfg.Mode = Blocking
	}
	if !slices.Contains([]string{Blocking, BlockingStrict, Batch}, cfg.Mode) {
		return nil, fmt.Errorf("open audit log: mode %q is none of %q, %q, %q", cfg.Mode, Batch, Blocking, BlockingStrict)
	}
	out, err := open(cfg)
	if err != nil {
		return nil, err
	}
	return newTrail(p, out, cfg), nil
}

// open returns the file that the events go to. A file that cannot be written is
// an error now, not at the first request.
func open(cfg Config) (io.WriteCloser, error) {
	if cfg.LogPath == "-" {
		return keepOpen{os.Stdout}, nil
	}
	if err := os.MkdirAll(filepath.Dir(cfg.LogPath), 0o700); err != nil {
		return nil, fmt.Errorf("open audit log: %w", err)
	}
	f, err := os.OpenFile(cfg.LogPath, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open audit log: %w", err)
	}
	if err := f.Close(); err != nil {
		return nil, fmt.Errorf("open audit log: %w", err)
	}
	return &lumberjack.Logger{Filename: cfg.LogPath, MaxAge: cfg.MaxAge, MaxBackups: cfg.MaxBackups, MaxSize: cfg.MaxSize, Compress: cfg.Compress}, nil
}

// keepOpen is a stream that is not ours to close.
type keepOpen struct{ io.Writer }

// Close implements io.Closer.
func (keepOpen) Close() error { return nil }

func newTrail(p *auditinternal.Policy, out io.WriteCloser, cfg Config) *Trail {
	sink := auditlog.NewBackend(out, cfg.Format, auditv1.SchemeGroupVersion)
	if cfg.Format != auditlog.FormatLegacy {
		sink = lineSink{sink, out}
	}
	if cfg.MaxEventSize > 0 {
		sink = truncate.NewBackend(sink, truncate.Config{MaxEventSize: cfg.MaxEventSize, MaxBatchSize: max(maxBatchSize, cfg.MaxEventSize)}, auditv1.SchemeGroupVersion)
	}
	switch cfg.Mode {
	case Batch:
		sink = buffered.NewBackend(sink, batch)
	case Blocking:
		sink = lenient{sink}
	}
	return &Trail{rules: policy.NewPolicyRuleEvaluator(p), sink: sink, out: out}
}

// lenient lets requests go on whose events could not be written. The failure is
// counted by the library (apiserver_audit_error_total).
type lenient struct{ audit.Backend }

// ProcessEvents implements audit.Sink.
func (l lenient) ProcessEvents(events ...*auditinternal.Event) bool {
	l.Backend.ProcessEvents(events...)
	return true
}
