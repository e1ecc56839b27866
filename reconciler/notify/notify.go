// Package notify tells others how commits fare: webhooks, chats (Slack,
// Mattermost, Discord) and the commit status of GitHub, GitLab and Gitea.
//
//	Commit objects ──> decide ──> a queue for each receiver ──> POST
//	Repository.spec.notifications    newest state of a commit     retried
//	         ^                       replaces an older one           │
//	         └──── annotation: what the receiver was told last <─────┘
//
// It watches Commit and Repository objects, and reads the Secrets that
// notifications name when it calls. It owns the annotations notified.writ.dev/*
// of both: what each receiver was told last, so that a restart neither loses a
// state nor tells it twice (a kill between call and note tells it twice; the
// header X-Writ-Delivery is the same then).
//
// It promises that nobody waits for it, that every commit that a forge was told
// of ends with a final status, that a receiver that is away costs no more than
// its queue, and that no secret is in a log, an event or an error.
package notify

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// Config is everything the notifier needs from outside.
type Config struct {
	// Client reads Secrets and writes annotations and events as the user
	// system:writ:reconciler.
	Client client.Backend
	// Cluster is what this cluster is called to others; "": nothing, and the
	// context of a status is writ/<repository>.
	Cluster string
	// Page is the URL of the page of a commit; nil, or "": there is none.
	Page func(*v1alpha1.Commit) string
	// Between names the commits that came to the branch after old and before
	// new, without both, newest first: those of one push, and of pushes between
	// two polls. They have no Commit object, and a forge shows them as it shows
	// new in the end. It is called in the notifier's goroutine and reads local
	// history only. nil: none.
	Between func(repository, old, new string) ([]string, error)
	// Transport calls receivers; nil: a real one for each. For tests.
	Transport http.RoundTripper
	Log       *slog.Logger
	Metrics   prometheus.Registerer // nil: none
}

// Notifier tells the receivers of all repositories.
type Notifier struct {
	cfg     Config
	log     *slog.Logger
	metrics *metrics
	wake    chan struct{}

	mu      sync.Mutex
	commits map[string]*v1alpha1.Commit // that changed; the last state of those that are gone
	repos   map[string]bool             // whose notifications may have changed

	// Only the goroutine of Run touches these.
	queues  map[string]map[string]*queue // by repository and notification
	handled map[string]*handled          // by the name of the commit
}

// handled is what is told of a commit, or waits in a queue to be.
type handled struct {
	uid, repository string
	told            map[string]Mark // by notification
}

// maxNotifications is how many of a repository are heeded.
const maxNotifications = 32

// New returns a notifier; it starts nothing.
func New(cfg Config) *Notifier {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Notifier{cfg: cfg, log: cfg.Log, metrics: newMetrics(cfg.Metrics), wake: make(chan struct{}, 1),
		commits: map[string]*v1alpha1.Commit{}, repos: map[string]bool{}, queues: map[string]map[string]*queue{}, handled: map[string]*handled{}}
}

// Run tells until ctx is done. What is not sent then is sent after the next
// start.
func (n *Notifier) Run(ctx context.Context) error {
	defer n.stopAll()
	cache := n.cfg.Client.Cache()
	if err := cache.Subscribe(ctx, schema.ResourceFor[*v1alpha1.Repository](), n.repository); err != nil {
		return fmt.Errorf("subscribe to repositories: %w", err)
	}
	if err := cache.Subscribe(ctx, schema.ResourceFor[*v1alpha1.Commit](), n.commit); err != nil {
		return fmt.Errorf("subscribe to commits: %w", err)
	}
	for {
		n.settle(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-n.wake:
		}
	}
}

// commit notes a change. It runs in the cache's goroutine and must be quick.
func (n *Notifier) commit(ev client.Event) {
	c, ok := ev.Object.(*v1alpha1.Commit)
	if old, had := ev.Old.(*v1alpha1.Commit); !ok || had && ev.Type == client.Modified && MarkOf(old) == MarkOf(c) {
		return
	}
	if ev.Type == client.Deleted {
		c = gone(c)
	}
	n.mu.Lock()
	n.commits[c.Name] = c
	n.mu.Unlock()
	n.poke()
}

// repository notes a change, as commit does.
func (n *Notifier) repository(ev client.Event) {
	r, ok := ev.Object.(*v1alpha1.Repository)
	if old, had := ev.Old.(*v1alpha1.Repository); !ok || had && ev.Type == client.Modified && old.Spec.URL == r.Spec.URL &&
		reflect.DeepEqual(old.Spec.Notifications, r.Spec.Notifications) {
		return
	}
	n.mu.Lock()
	n.repos[r.Name] = true
	n.mu.Unlock()
	n.poke()
}

func (n *Notifier) poke() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// settle takes what has changed: first who is to be told, then what.
func (n *Notifier) settle(ctx context.Context) {
	n.mu.Lock()
	repos, commits := n.repos, n.commits
	n.repos, n.commits = map[string]bool{}, map[string]*v1alpha1.Commit{}
	n.mu.Unlock()
	if len(repos) > 0 {
		all := client.CachedList[*v1alpha1.Commit](n.cfg.Client.Cache(), "")
		for name := range repos {
			n.receivers(ctx, name, all)
		}
		for _, c := range all {
			if repos[c.Spec.Repository] && commits[c.Name] == nil {
				commits[c.Name] = c
			}
		}
	}
	order := slices.SortedFunc(maps.Keys(commits), func(a, b string) int {
		return cmp.Or(cmp.Compare(seen(commits[a]), seen(commits[b])), cmp.Compare(a, b))
	})
	for _, name := range order {
		c := commits[name]
		live, ok := client.Cached[*v1alpha1.Commit](n.cfg.Client.Cache(), schema.Key{Name: name})
		if ok {
			c = live // the newest state is the one to tell
		}
		n.tell(ctx, c)
		if !ok {
			delete(n.handled, name)
		}
	}
}

// tell puts what is to be told of a commit into the queues.
func (n *Notifier) tell(ctx context.Context, c *v1alpha1.Commit) {
	queues := n.queues[c.Spec.Repository]
	if len(queues) == 0 {
		return
	}
	h := n.handled[c.Name]
	if h == nil || h.uid != string(c.UID) {
		h = &handled{uid: string(c.UID), repository: c.Spec.Repository, told: map[string]Mark{}}
		n.handled[c.Name] = h
	}
	var to []v1alpha1.Notification
	for name, q := range queues {
		if seen(c) < q.since {
			continue
		}
		if _, ok := h.told[name]; !ok {
			h.told[name] = toldOf(c, name)
		}
		to = append(to, q.n)
	}
	for _, m := range Decide(c, to, h.told) {
		h.told[m.Notification] = m.Mark
		q := queues[m.Notification]
		for _, also := range n.also(&m, q) {
			if lost := q.put(also, time.Now()); lost != nil {
				n.drop(ctx, q, lost, fmt.Errorf("%d newer messages wait", maxQueued))
			}
		}
		if lost := q.put(m, time.Now()); lost != nil {
			n.drop(ctx, q, lost, fmt.Errorf("%d newer messages wait", maxQueued))
		}
		n.metrics.queued.WithLabelValues(c.Spec.Repository, q.n.Name, q.n.Type).Set(float64(q.len()))
	}
}
