// Package spans sends one OpenTelemetry trace for each commit that has ended,
// from push to healthy, to a collector that speaks OTLP over HTTP.
//
//	commit ├───────────────────────────────────────────────┤
//	 push  ├────────┤
//	 render         ├──┤
//	 plan              ├─┤
//	 apply               ├──┤
//	 converge               ├──────────────────────────────┤
//
// It watches Commit objects, and owns their annotation writ.dev/traced, by
// which a commit is not sent twice. It is off unless Config.Endpoint or
// OTEL_EXPORTER_OTLP_ENDPOINT says where to; the other variables of
// OpenTelemetry (headers, certificates, timeout, compression, resource
// attributes) hold as its specification says.
//
// It promises that the trace of a commit has the ID that TraceID says, and that
// nobody waits for a collector that is away.
package spans

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// Config is everything the exporter needs from outside.
type Config struct {
	// Client writes annotations as the user system:writ:reconciler.
	Client client.Backend
	// Endpoint is the base URL of the collector, to which v1/traces is added:
	// http://collector:4318. "": what the environment says, or off.
	Endpoint string
	// Cluster and Version of writ are attributes of the resource; "": left out.
	Cluster, Version string
	Log              *slog.Logger
}

// Spans sends traces.
type Spans struct {
	cfg  Config
	log  *slog.Logger
	wake chan struct{}

	mu      sync.Mutex
	pending map[string]*v1alpha1.Commit // by name
}

const (
	annotation = "writ.dev/traced"
	manager    = "writ-spans"
	maxPending = 1000
	maxBatch   = 50 // commits of one request

	firstPause = time.Second
	mostPause  = 5 * time.Minute
)

// New returns an exporter; it starts nothing.
func New(cfg Config) *Spans {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Spans{cfg: cfg, log: cfg.Log, wake: make(chan struct{}, 1), pending: map[string]*v1alpha1.Commit{}}
}

// Enabled says whether there is a collector to send to.
func (s *Spans) Enabled() bool {
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		return false
	}
	return cmp.Or(s.cfg.Endpoint, os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT")) != ""
}

// Run sends until ctx is done; without a collector it waits for that. An error
// is one of the endpoint's URL or of the subscription.
func (s *Spans) Run(ctx context.Context) error {
	if !s.Enabled() {
		<-ctx.Done()
		return nil
	}
	exporter, err := s.exporter(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if err := exporter.Shutdown(context.WithoutCancel(ctx)); err != nil {
			s.log.Debug("exporter of traces not closed", "err", err)
		}
	}()
	if err := s.cfg.Client.Cache().Subscribe(ctx, schema.ResourceFor[*v1alpha1.Commit](), s.observe); err != nil {
		return fmt.Errorf("subscribe to commits: %w", err)
	}
	pause := firstPause
	for {
		var again <-chan time.Time
		if err := s.flush(ctx, exporter); err != nil && ctx.Err() == nil {
			if pause == firstPause {
				s.log.Warn("traces not sent yet", "err", err)
			}
			again, pause = time.After(pause), min(2*pause, mostPause)
		} else {
			pause = firstPause
		}
		wake := s.wake
		if again != nil {
			wake = nil // a collector that is away is not asked more often
		}
		select {
		case <-ctx.Done():
			return nil
		case <-wake:
		case <-again:
		}
	}
}

// exporter makes the client of the collector; it does not call it yet.
func (s *Spans) exporter(ctx context.Context) (sdk.SpanExporter, error) {
	var o []otlptracehttp.Option
	if s.cfg.Endpoint != "" {
		u, err := url.Parse(s.cfg.Endpoint)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return nil, errors.New("the endpoint for traces is not a URL such as http://collector:4318")
		}
		o = append(o, otlptracehttp.WithEndpointURL(u.JoinPath("v1", "traces").String()))
	}
	// What cannot be sent is sent again by Run.
	o = append(o, otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: false}))
	e, err := otlptracehttp.New(ctx, o...)
	if err != nil {
		return nil, fmt.Errorf("make exporter of traces: %w", err)
	}
	return e, nil
}

// observe notes commits that have ended. It runs in the cache's goroutine and
// must be quick.
func (s *Spans) observe(ev client.Event) {
	c, ok := ev.Object.(*v1alpha1.Commit)
	if !ok || ev.Type == client.Deleted || !Ended(c) || c.Annotations[annotation] == mark(c) {
		return
	}
	if old, had := ev.Old.(*v1alpha1.Commit); had && mark(old) == mark(c) {
		return // it is pending, or was just sent
	}
	s.mu.Lock()
	if len(s.pending) < maxPending {
		s.pending[c.Name] = c
	}
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// flush sends all that is pending.
func (s *Spans) flush(ctx context.Context, exporter sdk.SpanExporter) error {
	for {
		batch := s.batch()
		if len(batch) == 0 {
			return nil
		}
		var all []sdk.ReadOnlySpan
		for _, c := range batch {
			all = append(all, record(c, s.cfg.Cluster, s.resource())...)
		}
		if len(all) > 0 {
			if err := exporter.ExportSpans(ctx, all); err != nil {
				return err
			}
		}
		for _, c := range batch {
			if err := s.note(ctx, c); err != nil && ctx.Err() == nil {
				s.log.Warn("sent trace not noted; a restart sends it again", "commit", c.Spec.SHA, "err", err)
			}
		}
		s.done(batch)
	}
}

// batch is the oldest of what is pending.
func (s *Spans) batch() []*v1alpha1.Commit {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]*v1alpha1.Commit, 0, len(s.pending))
	for _, c := range s.pending {
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b *v1alpha1.Commit) int {
		return cmp.Or(cmp.Compare(seen(a), seen(b)), cmp.Compare(a.Name, b.Name))
	})
	return out[:min(len(out), maxBatch)]
}

// done forgets what was sent, unless it has changed meanwhile.
func (s *Spans) done(batch []*v1alpha1.Commit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range batch {
		if s.pending[c.Name] == c {
			delete(s.pending, c.Name)
		}
	}
}

// note remembers in the Commit that it was sent.
func (s *Spans) note(ctx context.Context, c *v1alpha1.Commit) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{annotation: mark(c)}}})
	if err != nil {
		return fmt.Errorf("encode annotation: %w", err)
	}
	_, err = s.cfg.Client.Patch(ctx, schema.ResourceFor[*v1alpha1.Commit](), schema.KeyOf(c), types.MergePatchType, patch, client.WriteOptions{FieldManager: manager})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// resource says who sends.
func (s *Spans) resource() *resource.Resource {
	attrs := []attribute.KeyValue{attribute.String("service.name", "writ")}
	if s.cfg.Version != "" {
		attrs = append(attrs, attribute.String("service.version", s.cfg.Version))
	}
	if s.cfg.Cluster != "" {
		attrs = append(attrs, attribute.String("k8s.cluster.name", s.cfg.Cluster))
	}
	own := resource.NewSchemaless(attrs...)
	// The environment may say more, and otherwise.
	if merged, err := resource.Merge(own, resource.NewSchemaless(resource.Environment().Attributes()...)); err == nil {
		return merged
	}
	return own
}
