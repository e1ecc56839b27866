package fairness

import (
	"context"
	"log/slog"
	"slices"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

// Config is what a Limiter needs from outside.
type Config struct {
	// Seats are how many requests run at once. Default 600: upstream's 400
	// reading and 200 changing ones.
	Seats int
	// Wait is how long a request may wait for its seat. Default 15 s, a
	// quarter of the request timeout, as upstream.
	Wait time.Duration
	// Client writes the status of FlowSchemas, Cache holds them. Without Cache
	// the mandatory and suggested configuration of Kubernetes is in force.
	Client client.Writer
	Cache  client.Cache
	Log    *slog.Logger
}

// New returns a limiter with the configuration that Kubernetes begins with; it
// starts nothing.
func New(cfg Config) *Limiter {
	if cfg.Seats == 0 {
		cfg.Seats = 600
	}
	if cfg.Wait == 0 {
		cfg.Wait = 15 * time.Second
	}
	l := &Limiter{seats: cfg.Seats, wait: cfg.Wait, levels: map[string]*level{}}
	l.Set(bootstrap.SuggestedFlowSchemas, bootstrap.SuggestedPriorityLevelConfigurations)
	return l
}

// Set puts a configuration in force. The mandatory schemas and levels are added
// where they are missing. Requests that run or wait stay where they are.
func (l *Limiter) Set(schemas []*flowcontrolv1.FlowSchema, levels []*flowcontrolv1.PriorityLevelConfiguration) {
	schemas = withMandatory(schemas, bootstrap.MandatoryFlowSchemas, func(s *flowcontrolv1.FlowSchema) string { return s.Name })
	levels = withMandatory(levels, bootstrap.MandatoryPriorityLevelConfigurations, func(l *flowcontrolv1.PriorityLevelConfiguration) string { return l.Name })
	l.mu.Lock()
	defer l.mu.Unlock()
	l.schemas = order(schemas)
	limits := shares(levels, l.seats)
	old := l.levels
	l.levels, l.reserved = make(map[string]*level, len(levels)), 0
	for _, c := range levels {
		lv := old[c.Name]
		if lv == nil {
			lv = &level{}
		}
		delete(old, c.Name)
		lv.config, lv.share = c, limits[c.Name]
		l.levels[c.Name] = lv
		l.reserved += max(lv.running, lv.kept)
	}
	for _, lv := range old { // deleted: what waits there runs now, there is no share to wait for
		for w := lv.queue.pop(); w != nil; w = lv.queue.pop() {
			lv.running++
			close(w.seat)
		}
		lv.share = share{}
		l.deleted = append(l.deleted, lv)
	}
	l.deleted = slices.DeleteFunc(l.deleted, func(lv *level) bool { return lv.running == 0 })
	for _, lv := range l.deleted {
		l.reserved += lv.running
	}
	for _, lv := range l.levels {
		l.drain(lv)
	}
}

func withMandatory[T any](all, mandatory []T, name func(T) string) []T {
	have := map[string]bool{}
	for _, o := range all {
		have[name(o)] = true
	}
	for _, o := range mandatory {
		if !have[name(o)] {
			all = append(all[:len(all):len(all)], o)
		}
	}
	return all
}

// Run follows the cluster's FlowSchemas and PriorityLevelConfigurations, and
// says in the status of each schema whether its level exists.
func Run(ctx context.Context, l *Limiter, cfg Config) error {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	schemas, levels := schema.ByGVK(flowcontrolv1.SchemeGroupVersion.WithKind("FlowSchema")), schema.ByGVK(flowcontrolv1.SchemeGroupVersion.WithKind("PriorityLevelConfiguration"))
	if cfg.Cache == nil || schemas == nil || levels == nil {
		<-ctx.Done()
		return nil
	}
	changed := make(chan struct{}, 1)
	wake := func(client.Event) {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	for _, r := range []*schema.Resource{schemas, levels} {
		if err := cfg.Cache.Subscribe(ctx, r, wake); err != nil {
			return err
		}
	}
	for {
		s, p := typed[*flowcontrolv1.FlowSchema](cfg.Cache, schemas), typed[*flowcontrolv1.PriorityLevelConfiguration](cfg.Cache, levels)
		l.Set(s, p)
		report(ctx, cfg, schemas, s, p)
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

func typed[T schema.Object](c client.Cache, r *schema.Resource) []T {
	var out []T
	for _, o := range c.List(r, "") {
		if t, ok := o.(T); ok {
			out = append(out, t)
		}
	}
	return out
}
