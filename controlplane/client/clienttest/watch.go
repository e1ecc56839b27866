package clienttest

import (
	"context"
	"fmt"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

// patience is how long anything may take over a real network and disk.
const patience = 10 * time.Second

// watch opens a watch of ConfigMaps that ends with the test.
func (s *suite) watch(o client.WatchOptions) client.Watcher {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, patience)
	s.Cleanup(cancel)
	w, err := s.c.Watch(ctx, schema.ResourceFor[*corev1.ConfigMap](), o)
	s.ok("watch", err)
	s.Cleanup(w.Stop)
	return w
}

// expect reads the next events, bookmarks but those of the end of the initial
// events aside, and compares them with "ADDED a", "END", ...
func (s *suite) expect(w client.Watcher, want ...string) {
	s.Helper()
	for _, text := range want {
		for {
			ev, ok := <-w.Events()
			if !ok {
				s.Fatalf("watch ended, want %q", text)
			}
			if ev.Type == client.Bookmark && !ev.InitialEventsEnd {
				continue
			}
			got := "END"
			if ev.Type != client.Bookmark {
				got = fmt.Sprintf("%s %s", ev.Type, ev.Object.GetName())
			}
			if got != text {
				s.Fatalf("event %q, want %q (%v)", got, text, ev.Err)
			}
			break
		}
	}
}

func (s *suite) change(name string, labels map[string]string) *corev1.ConfigMap {
	s.Helper()
	got, err := client.Get[*corev1.ConfigMap](s.ctx, s.c, key(name))
	s.ok("get", err)
	next := copyOf(got)
	next.Labels = labels
	next.Data = map[string]string{"at": got.ResourceVersion}
	got, err = client.Update(s.ctx, s.c, next, options)
	s.ok("update", err)
	return got
}

func (s *suite) listSelects() {
	for name, app := range map[string]string{"c": "x", "a": "x", "b": "y"} {
		create(s, configMap(name, map[string]string{"app": app}, nil))
	}
	names := func(o client.ListOptions) string {
		l, err := s.c.List(s.ctx, schema.ResourceFor[*corev1.ConfigMap](), o)
		s.ok("list", err)
		if l.ResourceVersion == "" {
			s.Error("list without a resource version")
		}
		out := ""
		for _, o := range l.Items {
			out += o.GetName()
		}
		return out
	}
	for _, c := range []struct {
		o    client.ListOptions
		want string
	}{
		{client.ListOptions{}, "abc"},
		{client.ListOptions{Namespace: namespace}, "abc"},
		{client.ListOptions{Namespace: "other"}, ""},
		{client.ListOptions{Labels: labels.SelectorFromSet(labels.Set{"app": "x"})}, "ac"},
		{client.ListOptions{Fields: fields.OneTermEqualSelector("metadata.name", "b")}, "b"},
	} {
		if got := names(c.o); got != c.want {
			s.Errorf("list %+v: %q, want %q", c.o, got, c.want)
		}
	}
	bound := pod("p")
	bound.Spec.NodeName = "n1"
	create(s, bound)
	create(s, pod("q"))
	l, err := s.c.List(s.ctx, schema.ResourceFor[*corev1.Pod](), client.ListOptions{Fields: fields.OneTermEqualSelector("spec.nodeName", "n1")})
	s.ok("list by node", err)
	if len(l.Items) != 1 || l.Items[0].GetName() != "p" {
		s.Errorf("pods of n1: %d", len(l.Items))
	}
}

func (s *suite) watchFromStart() {
	create(s, configMap("a", nil, nil))
	create(s, configMap("b", nil, nil))
	w := s.watch(client.WatchOptions{})
	s.expect(w, "ADDED a", "ADDED b", "END")
	create(s, configMap("c", nil, nil))
	s.change("a", nil)
	s.ok("delete", client.Delete[*corev1.ConfigMap](s.ctx, s.c, key("b"), client.DeleteOptions{}))
	s.expect(w, "ADDED c", "MODIFIED a", "DELETED b")
}

func (s *suite) watchResumes() {
	create(s, configMap("a", nil, nil))
	from := s.change("a", map[string]string{"n": "1"})
	s.change("a", map[string]string{"n": "2"})
	create(s, configMap("b", nil, nil))
	w := s.watch(client.WatchOptions{ResourceVersion: from.ResourceVersion})
	s.expect(w, "MODIFIED a", "ADDED b")
}

// watchSelects: an object that begins to match is added, one that ceases to is
// deleted.
func (s *suite) watchSelects() {
	create(s, configMap("a", map[string]string{"app": "x"}, nil))
	create(s, configMap("b", map[string]string{"app": "y"}, nil))
	w := s.watch(client.WatchOptions{ListOptions: client.ListOptions{Labels: labels.SelectorFromSet(labels.Set{"app": "x"})}})
	s.expect(w, "ADDED a", "END")
	s.change("b", map[string]string{"app": "x"})
	s.change("a", map[string]string{"app": "y"})
	s.change("b", map[string]string{"app": "x", "more": "1"})
	s.expect(w, "ADDED b", "DELETED a", "MODIFIED b")
}

// cacheFollows: a cache over the client comes to hold what the server holds.
func (s *suite) cacheFollows() {
	create(s, configMap("a", nil, nil))
	owned := pod("p")
	owned.Spec.NodeName = "n1"
	yes := true
	owned.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "x", UID: "u1", Controller: &yes}}
	create(s, owned)

	cache := client.NewCache(client.CacheConfig{Client: s.c, Resources: []client.Selection{
		{Resource: schema.ResourceFor[*corev1.ConfigMap]()}, {Resource: schema.ResourceFor[*corev1.Pod]()},
	}})
	ctx, cancel := context.WithTimeout(s.ctx, patience)
	defer cancel()
	done := make(chan error)
	go func() { done <- cache.Run(ctx) }()
	defer func() { <-done }()
	defer cancel()
	s.ok("sync", cache.WaitSynced(ctx))
	if err := cache.Subscribe(ctx, schema.ResourceFor[*appsv1.Deployment](), func(client.Event) {}); err == nil {
		s.Error("subscribed to what the cache does not hold")
	}
	seen := &log{}
	s.ok("subscribe", cache.Subscribe(ctx, schema.ResourceFor[*corev1.ConfigMap](), seen.add))
	create(s, configMap("b", nil, nil))
	s.change("a", nil)
	s.ok("delete", client.Delete[*corev1.ConfigMap](s.ctx, s.c, key("b"), client.DeleteOptions{}))
	want := "ADDED a, ADDED b, MODIFIED a, DELETED b, "
	for begin := time.Now(); seen.String() != want && time.Since(begin) < patience; {
		time.Sleep(5 * time.Millisecond)
	}
	if got := seen.String(); got != want {
		s.Errorf("events %q, want %q", got, want)
	}
	if _, ok := client.Cached[*corev1.ConfigMap](cache, key("b")); ok {
		s.Error("deleted object is still cached")
	}
	if n := len(client.CachedIndex[*corev1.Pod](cache, client.IndexOwner, "u1")); n != 1 {
		s.Errorf("%d pods by owner", n)
	}
	if n := len(client.CachedIndex[*corev1.Pod](cache, client.IndexNode, "n1")); n != 1 {
		s.Errorf("%d pods by node", n)
	}
}

// log notes events.
type log struct {
	mu   sync.Mutex
	text string
}

func (l *log) add(ev client.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text += fmt.Sprintf("%s %s, ", ev.Type, ev.Object.GetName())
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text
}
