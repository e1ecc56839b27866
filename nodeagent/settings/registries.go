package settings

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/nodeagent/image"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// Host is what a pool says of a registry or a mirror. The Secret stays with the
// server: it is on no disk of the node.
type Host struct {
	CA string `json:"ca,omitempty"`
	// Secret is namespace/name; "" is none.
	Secret string `json:"secret,omitempty"`
}

// Secret is one as the server told of it, or why it did not.
type Secret struct {
	*corev1.Secret
	Err error
}

// same says that nothing has changed.
func (s Secret) same(o Secret) bool {
	if s.Secret == nil || o.Secret == nil {
		return s.Secret == o.Secret && fmt.Sprint(s.Err) == fmt.Sprint(o.Err)
	}
	return s.UID == o.UID && s.ResourceVersion == o.ResourceVersion
}

// declared is an endpoint with what it was made of, and what is wrong with that.
type declared struct {
	host     Host
	secret   Secret
	endpoint *image.Endpoint
	problem  string
}

// endpoints makes those of some hosts. What has not changed is taken from before.
// A host of which something cannot be had is asked with the rest, and so believed
// no more than without.
func endpoints(want map[string]Host, secrets map[string]Secret, before map[string]declared) (map[string]declared, []string) {
	var problems []string
	out := map[string]declared{}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		host, secret := want[name], secrets[want[name].Secret]
		d, ok := before[name]
		if !ok || d.host != host || !d.secret.same(secret) {
			d = declare(name, host, secret)
		}
		if out[name] = d; d.problem != "" {
			problems = append(problems, "registry "+name+": "+d.problem)
		}
	}
	return out, problems
}

func declare(name string, host Host, secret Secret) declared {
	d := declared{host: host, secret: secret}
	var err error
	if d.endpoint, err = image.NewEndpoint(name, host.CA, secret.Secret); err != nil {
		d.problem = err.Error()
		d.endpoint, _ = image.NewEndpoint(name, host.CA, nil) //nolint:errcheck // what is wrong with it was told
	}
	if host.Secret != "" && secret.Secret == nil {
		d.problem = secretError(host.Secret, secret.Err)
	}
	return d
}

func secretError(name string, err error) string {
	switch {
	case err == nil:
		return fmt.Sprintf("secret %s is not known yet: no server has told of it", name)
	case apierrors.IsNotFound(err):
		return fmt.Sprintf("there is no secret %s", name)
	case apierrors.IsForbidden(err):
		return fmt.Sprintf("secret %s may not be read by this node: "+
			"a node that could have chosen its pool by labels that it may give itself reads none of a pool", name)
	}
	return fmt.Sprintf("read secret %s: %s", name, err)
}

// Endpoint is what is declared of a registry or a mirror; nil where nothing is.
// It may be called by several goroutines.
func (s *Settings) Endpoint(host string) *image.Endpoint {
	if all := s.endpoints.Load(); all != nil {
		return (*all)[host].endpoint
	}
	return nil
}

// declareEndpoints brings the endpoints to what is wanted.
func (s *Settings) declareEndpoints(want map[string]Host) []string {
	var before map[string]declared
	if all := s.endpoints.Load(); all != nil {
		before = *all
	}
	next, problems := endpoints(want, s.secrets.all(), before)
	s.endpoints.Store(&next)
	return problems
}

// secretRetry is the longest pause before a Secret is asked for again.
const secretRetry = time.Minute

// secrets follows Secrets, each by a watch of its own: a node may read only
// those of its pool.
type secrets struct {
	client client.Reader
	ring   func()
	alive  sync.WaitGroup

	mu       sync.Mutex
	followed map[string]*followedSecret
}

type followedSecret struct {
	cancel context.CancelFunc
	now    Secret
}

// want follows some, and no others, until ctx ends.
func (s *secrets) want(ctx context.Context, hosts map[string]Host) {
	names := map[string]bool{}
	for _, h := range hosts {
		if h.Secret != "" {
			names[h.Secret] = true
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, f := range s.followed {
		if !names[name] {
			f.cancel()
			delete(s.followed, name)
		}
	}
	for name := range names {
		if s.followed[name] != nil || s.client == nil {
			continue
		}
		if s.followed == nil {
			s.followed = map[string]*followedSecret{}
		}
		ctx, cancel := context.WithCancel(ctx)
		f := &followedSecret{cancel: cancel}
		s.followed[name] = f
		s.alive.Go(func() { s.follow(ctx, name, f) })
	}
}

// all is what is known of those that are followed.
func (s *secrets) all() map[string]Secret {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]Secret{}
	for name, f := range s.followed {
		out[name] = f.now
	}
	return out
}

// set takes over news. What was known stays so while no server answers.
func (s *secrets) set(f *followedSecret, next Secret) {
	s.mu.Lock()
	lost := next.Secret == nil && f.now.Secret != nil && !apierrors.IsNotFound(next.Err) && !apierrors.IsForbidden(next.Err)
	news := !lost && !f.now.same(next)
	if news {
		f.now = next
	}
	s.mu.Unlock()
	if news {
		s.ring()
	}
}

func (s *secrets) follow(ctx context.Context, name string, f *followedSecret) {
	namespace, n, _ := strings.Cut(name, "/")
	key := schema.Key{Namespace: namespace, Name: n}
	pause := time.Second
	for ctx.Err() == nil {
		told, err := s.followOnce(ctx, key, f)
		if ctx.Err() != nil {
			return
		}
		if told {
			pause = time.Second
		}
		if err != nil {
			s.set(f, Secret{Err: err})
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, secretRetry)
	}
}

// followOnce follows a Secret until the watch ends, and says whether anything was
// told.
func (s *secrets) followOnce(ctx context.Context, key schema.Key, f *followedSecret) (bool, error) {
	r := schema.ResourceFor[*corev1.Secret]()
	w, err := s.client.Watch(ctx, r, client.WatchOptions{ListOptions: client.ListOptions{
		Namespace: key.Namespace, Fields: fields.OneTermEqualSelector("metadata.name", key.Name),
	}})
	if err != nil {
		return false, err
	}
	defer w.Stop()
	told := false
	gone := Secret{Err: apierrors.NewNotFound(r.GroupResource(), key.Name)}
	for e := range w.Events() {
		switch e.Type {
		case client.Added, client.Modified:
			if secret, ok := e.Object.(*corev1.Secret); ok {
				told = true
				s.set(f, Secret{Secret: secret})
			}
		case client.Deleted:
			s.set(f, gone)
		case client.Bookmark:
			if e.InitialEventsEnd && !told {
				told = true
				s.set(f, gone)
			}
		case client.Error:
			return told, e.Err
		}
	}
	return told, nil
}

// hostsOf are the registries and mirrors of which a pool says how they are
// asked.
func hostsOf(all []v1alpha1.NodeRegistry) map[string]Host {
	var out map[string]Host
	for _, r := range all {
		if r.CA == "" && r.Secret == "" {
			continue
		}
		if out == nil {
			out = map[string]Host{}
		}
		out[r.Host] = Host{CA: r.CA, Secret: r.Secret}
	}
	return out
}
