package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/reconciler/receive"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// pushRules are what the Repository object says of pushes to the built-in
// remote, and that break-glass may push whatever it says; nil when it says
// nothing.
func pushRules(cache client.Cache) []receive.Rule {
	repo, ok := client.Cached[*v1alpha1.Repository](cache, schema.Key{Name: RepositoryName})
	if !ok || len(repo.Spec.Pushes) == 0 {
		return nil
	}
	rules := make([]receive.Rule, 0, len(repo.Spec.Pushes)+1)
	for _, p := range repo.Spec.Pushes {
		rules = append(rules, receive.Rule{Users: p.Users, Groups: p.Groups, Refs: p.Refs, Paths: p.Paths, Force: p.Force, Delete: p.Delete})
	}
	return append(rules, receive.Rule{Groups: []string{user.SystemPrivilegedGroup}})
}

// mayFetch says whether a user may read the whole repository: the verb get on the
// subresource git of the Repository, as RBAC, or what stands in its place, has it.
// Viewers have that of their role writ:viewer; no pod, node or joining machine has.
func (p *ControlPlane) mayFetch(ctx context.Context, repository string, u user.Info) bool {
	r := schema.ResourceFor[*v1alpha1.Repository]()
	d, _, err := p.authz.Authorize(ctx, authorizer.AttributesRecord{User: u, Verb: "get", APIGroup: r.Group, APIVersion: r.Version,
		Resource: r.Plural, Subresource: "git", Name: repository, ResourceRequest: true})
	return err == nil && d == authorizer.DecisionAllow
}

// mirrors has the built-in remote keep the mirrors that the Repository object
// declares, and writes into its status how they are doing.
//
// The reconciler writes that status too, all of it, from what it last saw. So
// this writes nothing but its own field, as a patch, and writes it again when
// it has become otherwise.
type mirrors struct {
	client client.Backend
	remote *receive.Remote
	wake   chan struct{}
	log    *slog.Logger
}

// nudge has who waits for c look again; it does not wait itself.
func nudge(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// The least time between two writes of the status, and before one that failed
// is tried again.
const (
	betweenWrites   = 200 * time.Millisecond
	afterLostWrites = 10 * time.Second
)

// Run follows the Repository object until ctx is done.
func (m *mirrors) Run(ctx context.Context) error {
	if err := m.subscribe(ctx); err != nil {
		return err
	}
	for {
		pause := time.Duration(0)
		switch wrote, err := m.settle(ctx); {
		case err != nil && ctx.Err() == nil:
			m.log.Warn("status of mirrors not written", "err", err)
			pause = afterLostWrites
			nudge(m.wake)
		case wrote:
			pause = betweenWrites
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
		select {
		case <-ctx.Done():
			return nil
		case <-m.wake:
		}
	}
}

func (m *mirrors) subscribe(ctx context.Context) error {
	cache := m.client.Cache()
	err := cache.Subscribe(ctx, schema.ResourceFor[*v1alpha1.Repository](), func(ev client.Event) {
		if ev.Object != nil && ev.Object.GetName() == RepositoryName {
			nudge(m.wake)
		}
	})
	if err != nil {
		return fmt.Errorf("subscribe to repositories: %w", err)
	}
	err = cache.Subscribe(ctx, schema.ResourceFor[*corev1.Secret](), func(ev client.Event) {
		if ev.Object != nil {
			m.remote.CredentialsChanged(schema.KeyOf(ev.Object).String())
		}
	})
	if err != nil {
		return fmt.Errorf("subscribe to secrets: %w", err)
	}
	return nil
}

// settle hands over what is declared, and writes down how it is doing if that
// is not what the status says.
func (m *mirrors) settle(ctx context.Context) (wrote bool, err error) {
	repo, ok := client.Cached[*v1alpha1.Repository](m.client.Cache(), schema.Key{Name: RepositoryName})
	if !ok {
		m.remote.SetMirrors(nil)
		return false, nil
	}
	m.remote.SetMirrors(declaredMirrors(repo.Spec.Mirrors))
	now := mirrorStatus(m.remote.Mirrors())
	if equality.Semantic.DeepEqual(now, repo.Status.Mirrors) {
		return false, nil
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"mirrors": now}})
	if err != nil {
		return false, fmt.Errorf("encode status of mirrors: %w", err)
	}
	_, err = m.client.Patch(ctx, schema.ResourceFor[*v1alpha1.Repository](), schema.KeyOf(repo), types.MergePatchType, patch,
		client.WriteOptions{Subresource: "status", FieldManager: "writ-mirrors"})
	if apierrors.IsNotFound(err) {
		err = nil
	}
	return true, err
}

func declaredMirrors(declared []v1alpha1.RepositoryMirror) []receive.Mirror {
	out := make([]receive.Mirror, len(declared))
	for i, d := range declared {
		out[i] = receive.Mirror{Repository: RepositoryName, URL: d.URL, Credentials: d.CredentialsSecret, Pull: d.Direction == v1alpha1.MirrorPull,
			Refs: d.Refs, Force: d.Force}
		if d.Interval != nil {
			out[i].Interval = d.Interval.Duration
		}
		if d.Timeout != nil {
			out[i].Timeout = d.Timeout.Duration
		}
	}
	return out
}

// mirrorStatus leaves out what changes with each look: a status is written for
// what is worth reading.
func mirrorStatus(mirrors []receive.MirrorStatus) []v1alpha1.MirrorStatus {
	out := make([]v1alpha1.MirrorStatus, len(mirrors))
	for i, m := range mirrors {
		out[i] = v1alpha1.MirrorStatus{URL: m.URL, Direction: v1alpha1.MirrorPush, InStepTime: seconds(m.InStep), FailingTime: seconds(m.Failing), Message: m.Message}
		if m.Pull {
			out[i].Direction = v1alpha1.MirrorPull
		}
	}
	return out
}

// seconds is a time as objects keep it; nil for none.
func seconds(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	return &metav1.Time{Time: t.Truncate(time.Second)}
}
