package nodeagent

import (
	"context"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/nodeagent/pod"
	"github.com/writ-os/writ/schema"
)

// Selections are what the cache of an agent must hold: the pods of its node,
// and all services.
func Selections(node string) []client.Selection {
	return []client.Selection{
		{Resource: schema.ResourceFor[*corev1.Pod](), ListOptions: client.ListOptions{Fields: fields.OneTermEqualSelector("spec.nodeName", node)}},
		{Resource: schema.ResourceFor[*corev1.Service]()},
	}
}

// syncer is a cache that has to catch up first.
type syncer interface {
	WaitSynced(ctx context.Context) error
}

// source hands the pods of the files and of the server to the workers. Until
// the server has told all its pods, none that runs is stopped for not being
// among them.
func (a *Agent) source(ctx context.Context) error {
	m := &merger{a: a, mirrors: map[string]*corev1.Pod{}, static: map[string]*corev1.Pod{}, api: map[string]bool{}, creates: map[string]time.Time{}}
	if err := m.readFiles(ctx); err != nil {
		a.log.Warn("read static pods", "dir", a.cfg.StaticDir, "err", err)
	}
	events := make(chan client.Event, 256)
	synced := make(chan struct{})
	sub, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-ctx.Done():
			return
		case <-a.claimed: // pods of another machine of this name are not ours
		}
		if s, ok := a.cfg.Cache.(syncer); ok && s.WaitSynced(ctx) != nil {
			return
		}
		err := a.cfg.Cache.Subscribe(sub, schema.ResourceFor[*corev1.Pod](), func(e client.Event) {
			select {
			case events <- e:
			case <-ctx.Done():
			}
		})
		if err == nil {
			close(synced)
		}
	}()
	return m.run(ctx, events, synced)
}

// merger joins the sources. It is one goroutine's.
type merger struct {
	a       *Agent
	static  map[string]*corev1.Pod // by UID
	mirrors map[string]*corev1.Pod // by hash: the UID of the static pod
	api     map[string]bool        // UIDs
	creates map[string]time.Time   // when a mirror was refused, by UID
	synced  bool
}

func (m *merger) run(ctx context.Context, events <-chan client.Event, synced <-chan struct{}) error {
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case e := <-events:
			m.event(e)
		case <-synced:
			synced = nil
			m.drain(events)
			m.synced = true
			m.keep()
		case <-tick.C:
			if err := m.readFiles(ctx); err != nil {
				m.a.log.Warn("read static pods", "dir", m.a.cfg.StaticDir, "err", err)
			}
		}
		if m.synced {
			m.mirror(ctx)
		}
	}
}

func (m *merger) drain(events <-chan client.Event) {
	for {
		select {
		case e := <-events:
			m.event(e)
		default:
			return
		}
	}
}

// keep lets go of all pods that no source has.
func (m *merger) keep() {
	all := map[string]bool{}
	for uid := range m.static {
		all[uid] = true
	}
	for uid := range m.api {
		all[uid] = true
	}
	m.a.pods.Keep(all)
	if m.a.objects != nil {
		m.a.objects.keep(all)
	}
}

// event takes over a change of the server.
func (m *merger) event(e client.Event) {
	p, ok := e.Object.(*corev1.Pod)
	if !ok || p.Spec.NodeName != m.a.cfg.NodeName {
		return
	}
	if hash := p.Annotations[pod.AnnotationMirror]; hash != "" {
		m.mirrorEvent(e.Type, hash, p)
		return
	}
	uid := string(p.UID)
	if e.Type == client.Deleted {
		delete(m.api, uid)
		m.a.pods.Remove(uid)
		m.forget(uid)
		return
	}
	// A pod of the same name that replaced one whose deletion was not seen.
	if old, ok := e.Old.(*corev1.Pod); ok && old.UID != p.UID {
		delete(m.api, string(old.UID))
		m.a.pods.Remove(string(old.UID))
		m.forget(string(old.UID))
	}
	m.api[uid] = true
	if m.a.objects != nil {
		m.a.objects.register(p)
	}
	m.a.pods.Update(p, nil)
}

func (m *merger) forget(uid string) {
	if m.a.objects != nil {
		m.a.objects.forget(uid)
	}
}

func (m *merger) mirrorEvent(t client.EventType, hash string, p *corev1.Pod) {
	if t == client.Deleted {
		if have := m.mirrors[hash]; have != nil && have.UID == p.UID {
			delete(m.mirrors, hash)
		}
	} else {
		m.mirrors[hash] = p
	}
	if s := m.static[hash]; s != nil {
		m.a.pods.Update(s, m.mirrors[hash])
	}
}

// tokens asks the server for service-account tokens.
type tokens struct{ client client.Writer }

func (t tokens) Token(ctx context.Context, namespace, account string, tr *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error) {
	tr.TypeMeta = metav1.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "TokenRequest"}
	o, err := t.client.Create(ctx, schema.ResourceFor[*corev1.ServiceAccount](), tr, client.WriteOptions{
		Subresource: "token", Key: schema.Key{Namespace: namespace, Name: account},
	})
	if err != nil {
		return nil, err
	}
	return o.(*authenticationv1.TokenRequest), nil
}
