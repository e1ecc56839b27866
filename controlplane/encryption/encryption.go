package encryption

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/server/options/encryptionconfig"
	"k8s.io/apiserver/pkg/storage/value"

	"github.com/writ-os/writ/controlplane/reload"
)

// Config says what to encrypt and how.
type Config struct {
	// File is an EncryptionConfiguration.
	File string
	// ServerID names this server in the metrics of KMS calls.
	ServerID string
	// Every is how often Run looks whether the file has changed. Default:
	// reload.Every.
	Every time.Duration
	// Changed is called after another configuration was taken over. May be nil.
	Changed func()
	Metrics *reload.Metrics // of reloads
	Log     *slog.Logger
}

// Encryption is the Transformer of a configuration file. It is safe for
// concurrent use.
type Encryption struct {
	cfg    Config
	loaded atomic.Pointer[loaded]
}

var _ Transformer = (*Encryption)(nil)

// loaded is what one state of the file says.
type loaded struct {
	config *encryptionconfig.EncryptionConfiguration
	all    encryptionconfig.StaticTransformers
	end    context.CancelFunc // ends the connections to KMS plugins
}

// Open reads the configuration. Connections to KMS plugins are kept until ctx
// ends. A KMS plugin that does not answer is no error yet: Check says so, and
// reads and writes of what it encrypts fail.
func Open(ctx context.Context, cfg Config) (*Encryption, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	e := &Encryption{cfg: cfg}
	l, err := e.load(ctx)
	if err != nil {
		return nil, err
	}
	e.loaded.Store(l)
	return e, nil
}

func (e *Encryption) load(ctx context.Context) (*loaded, error) {
	ctx, end := context.WithCancel(ctx)
	c, err := encryptionconfig.LoadEncryptionConfig(ctx, e.cfg.File, false, e.cfg.ServerID)
	if err != nil {
		end()
		return nil, fmt.Errorf("read encryption configuration %s: %w", e.cfg.File, err)
	}
	return &loaded{config: c, all: c.Transformers, end: end}, nil
}

// Run follows the file until ctx ends. A file that cannot be used is told in
// the log and the configuration stays as it was: an operator's slip must not
// take Secrets away from a running cluster.
func (e *Encryption) Run(ctx context.Context) error {
	w := reload.New(reload.Config{
		Name: "encryption_config", Files: []string{e.cfg.File}, Every: e.cfg.Every, Metrics: e.cfg.Metrics, Log: e.cfg.Log,
		// A KMS plugin that does not answer now may do so with the same file.
		Take: func(ctx context.Context, _ [][]byte) error { return reload.Later(e.Reload(ctx)) },
	})
	if err := w.Load(ctx); err != nil {
		e.cfg.Log.Error("encryption configuration not reloaded", "file", e.cfg.File, "err", err)
	}
	return w.Run(ctx)
}

// Reload reads the file again if it has changed, and takes it over if what it
// names works. Connections of the new configuration end with ctx.
func (e *Encryption) Reload(ctx context.Context) error {
	hash, err := encryptionconfig.GetEncryptionConfigHash(e.cfg.File)
	if err != nil {
		return fmt.Errorf("read encryption configuration: %w", err)
	}
	old := e.loaded.Load()
	if hash == old.config.EncryptionFileContentHash {
		return nil
	}
	next, err := e.load(ctx)
	if err != nil {
		return err
	}
	if err := next.check(ctx); err != nil {
		next.end()
		return fmt.Errorf("check encryption configuration %s: %w", e.cfg.File, err)
	}
	e.loaded.Store(next)
	if e.cfg.Changed != nil {
		e.cfg.Changed()
	}
	// Requests that have begun with the old one may need its plugins yet.
	time.AfterFunc(old.config.KMSCloseGracePeriod, old.end)
	return nil
}

// Check says whether the KMS plugins answer and can encrypt: a readiness check
// of the server.
func (e *Encryption) Check(ctx context.Context) error { return e.loaded.Load().check(ctx) }

func (l *loaded) check(ctx context.Context) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
	if err != nil {
		return err
	}
	var errs []error
	for _, c := range l.config.HealthChecks {
		if err := c.Check(r); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", c.Name(), err))
		}
	}
	return errors.Join(errs...)
}

// ToStorage implements Transformer.
func (e *Encryption) ToStorage(ctx context.Context, resource, key string, plain []byte) ([]byte, error) {
	stored, err := e.of(resource).TransformToStorage(ctx, plain, value.DefaultContext(key))
	if err != nil {
		return nil, fmt.Errorf("encrypt %s: %w", key, err)
	}
	return stored, nil
}

// FromStorage implements Transformer.
func (e *Encryption) FromStorage(ctx context.Context, resource, key string, stored []byte) (plain []byte, stale bool, err error) {
	// The aescbc of k8s.io/apiserver panics on a value of one block and no
	// content. A torn value must not end the server.
	defer func() {
		if r := recover(); r != nil {
			plain, stale, err = nil, false, fmt.Errorf("decrypt %s: the value is damaged: %v", key, r)
		}
	}()
	plain, stale, err = e.of(resource).TransformFromStorage(ctx, stored, value.DefaultContext(key))
	if err != nil {
		return nil, false, fmt.Errorf("decrypt %s%s: %w", key, under(stored), err)
	}
	return plain, stale, nil
}

// under says which key a value was encrypted with.
func under(stored []byte) string {
	parts := strings.SplitN(string(stored[:min(len(stored), 256)]), ":", 6) // k8s:enc:<provider>:<version>:<key>:
	if len(parts) < 6 || parts[0] != "k8s" || parts[1] != "enc" {
		return ""
	}
	return fmt.Sprintf(", which is stored under key %q of %s", parts[4], parts[2])
}

func (e *Encryption) of(resource string) value.Transformer {
	return e.loaded.Load().all.TransformerForResource(schema.ParseGroupResource(resource))
}

// Resources returns the rules of the configuration: "secrets", "*.apps", "*.*".
func (e *Encryption) Resources() []string {
	var out []string
	for r := range e.loaded.Load().all {
		out = append(out, r.String())
	}
	return out
}
