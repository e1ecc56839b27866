package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/writ-os/writ/controlplane/admission"
	"github.com/writ-os/writ/controlplane/apiserver"
	"github.com/writ-os/writ/controlplane/auth/identity"
	"github.com/writ-os/writ/controlplane/auth/pki"
	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/reconciler/receive"
	"github.com/writ-os/writ/reconciler/source"
	"github.com/writ-os/writ/schema"
)

// The built-in repository of several servers. Its refs are an object of the
// store, which decides; its objects are files of each server. The server that
// leads takes pushes, and answers one when most of the servers have the objects
// and the store has the refs. The next to lead gives its copy the refs of the
// store, and fetches from the others what it has not got.
const (
	refsKey       = "refs"
	replicaPrefix = "/replica"
	keptWithin    = 30 * time.Second // a push is kept by most of the servers
	replicaLook   = 15 * time.Second
)

var refsObject = schema.Key{Namespace: metav1.NamespaceSystem, Name: admission.GitRefs + RepositoryName}

// newRemote is the built-in remote, for as long as the process runs. What it
// asks about pushes is asked of whatever leads.
func (p *ControlPlane) newRemote() *receive.Remote {
	c := p.as(identity.Reconciler)
	cfg := receive.Config{Dir: p.cfg.file("git"), Names: []string{RepositoryName}, Branch: p.cfg.Repository.branch(),
		Rules:       func(string) []receive.Rule { return pushRules(c.Cache()) },
		MayFetch:    p.mayFetch,
		Credentials: opener{client: c}.auth,
		Mirrored: func() {
			if git := p.git.Load(); git != nil {
				nudge(git.mirrors.wake)
			}
		},
		Check: func(ctx context.Context, push receive.Push) ([]string, error) {
			git := p.git.Load()
			if git == nil {
				return nil, errNoLeader
			}
			return git.check(ctx, push)
		},
		Pushed: func(repository, ref, sha string) {
			if git := p.git.Load(); git != nil {
				git.pushed(repository, ref, sha)
			}
		},
		Keep: func(string) []string { return inForce(c.Cache()) }, Sandbox: p.sandbox, Log: p.log("receive")}
	if p.member != nil {
		cfg.Commit = p.commitRefs
	}
	return receive.New(cfg)
}

// storedRefs are those that the store has; nil when it has none yet.
func (p *ControlPlane) storedRefs(ctx context.Context) (*corev1.ConfigMap, map[string]string, error) {
	o, err := client.Get[*corev1.ConfigMap](ctx, p.as(identity.APIServer), refsObject)
	if apierrors.IsNotFound(err) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read refs of the repository: %w", err)
	}
	refs, err := parseRefs(o)
	return o, refs, err
}

func parseRefs(o *corev1.ConfigMap) (map[string]string, error) {
	refs := map[string]string{}
	if err := json.Unmarshal([]byte(o.Data[refsKey]), &refs); err != nil {
		return nil, fmt.Errorf("read refs of the repository in %s: %w", refsObject, err)
	}
	return refs, nil
}

// commitRefs implements receive.Config.Commit.
func (p *ControlPlane) commitRefs(ctx context.Context, _ string, refs map[string]string) (adopt map[string]string, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keptWithin) // also for a pusher that has gone
	defer cancel()
	if err := p.commitOnce(ctx, refs); err != nil {
		p.log("receive").Warn("a push is not kept by most of the servers", "err", err)
		// What the store says holds, whether or not the push has come into it.
		_, stored, serr := p.storedRefs(ctx)
		return stored, errors.Join(err, serr)
	}
	return nil, nil
}

func (p *ControlPlane) commitOnce(ctx context.Context, refs map[string]string) error {
	if !p.store.IsLeader() {
		return errNoLeader
	}
	have, stored, err := p.storedRefs(ctx)
	if err != nil {
		return err
	}
	if have != nil && maps.Equal(stored, refs) {
		return nil
	}
	if len(refs) > 0 {
		if err := p.spread(ctx); err != nil {
			return err
		}
	}
	return p.storeRefs(ctx, have, refs)
}

// storeRefs has the store say what the refs are, if they still are what it said
// last; nil: nothing.
func (p *ControlPlane) storeRefs(ctx context.Context, have *corev1.ConfigMap, refs map[string]string) error {
	text, err := json.Marshal(refs)
	if err != nil {
		return fmt.Errorf("encode refs: %w", err)
	}
	next := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: refsObject.Namespace, Name: refsObject.Name}, Data: map[string]string{refsKey: string(text)}}
	if have == nil {
		_, err = client.Create(ctx, p.as(identity.APIServer), next, client.WriteOptions{})
		return err
	}
	next.ResourceVersion, next.UID = have.ResourceVersion, have.UID
	_, err = client.Update(ctx, p.as(identity.APIServer), next, client.WriteOptions{})
	return err
}

// spread returns when most of the servers have what the repository has here.
func (p *ControlPlane) spread(ctx context.Context) error {
	all, err := p.store.Members(ctx)
	if err != nil {
		return err
	}
	there := p.presences.all(p.registry.Cache(), time.Now())
	voters, asked := 0, 0
	done := make(chan error, len(all))
	for _, m := range all {
		if m.Learner {
			continue
		}
		voters++
		if at, ok := there[m.Name]; ok && !m.Self {
			asked++
			go func() { done <- p.askToPull(ctx, at.address) }()
		}
	}
	var failed []error
	for need := voters / 2; need > 0; { // with this one they are most
		if asked == 0 {
			return errors.Join(append([]error{errors.New("too few of the other servers have fetched it")}, failed...)...)
		}
		asked--
		if err := <-done; err != nil {
			failed = append(failed, err)
			continue
		}
		need--
	}
	return nil
}

// askToPull has another server fetch the repository from this one.
func (p *ControlPlane) askToPull(ctx context.Context, at netip.AddrPort) error {
	u := url.URL{Scheme: "https", Host: at.String(), Path: replicaPrefix + "/pull", RawQuery: url.Values{"from": {p.member.Name}}.Encode()}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), nil)
	if err != nil {
		return err
	}
	resp, err := p.asServer.RoundTrip(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close() //nolint:errcheck // it was only read
	if resp.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10)) //nolint:errcheck // a courtesy
		return fmt.Errorf("%s answers %s: %s", at, resp.Status, strings.TrimSpace(string(said)))
	}
	return nil
}

// replicas serves the repository of this server to the others of the cluster,
// whoever leads.
func (p *ControlPlane) replicas() []apiserver.Mount {
	if p.member == nil || p.remote == nil {
		return nil
	}
	remote := http.StripPrefix(replicaPrefix, p.remote.Replica())
	return []apiserver.Mount{{Prefix: replicaPrefix + "/", Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u, ok := request.UserFrom(r.Context())
		switch {
		case !ok || !identity.InGroup(u, user.SystemPrivilegedGroup):
			http.Error(w, "this is for the servers of the cluster", http.StatusForbidden)
		case r.Method == http.MethodPost && r.URL.Path == replicaPrefix+"/pull":
			if err := p.pullAtLeader(r.Context(), r.URL.Query().Get("from")); err != nil {
				http.Error(w, err.Error(), http.StatusConflict)
			}
		case strings.HasSuffix(r.URL.Path, "/git-receive-pack") || r.URL.Query().Get("service") == "git-receive-pack":
			http.Error(w, "push to /git/", http.StatusForbidden)
		default:
			remote.ServeHTTP(w, r)
		}
	})}}
}

// pullAtLeader pulls from the server that leads, and from no other: one that led
// may not have heard that it does so no more.
func (p *ControlPlane) pullAtLeader(ctx context.Context, name string) error {
	all, err := p.store.Members(ctx)
	if err != nil {
		return err
	}
	for _, m := range all {
		if m.Leader && !m.Self && m.Name == name {
			return p.pullFrom(ctx, name)
		}
	}
	return fmt.Errorf("%s does not lead, as far as is known here", name)
}

// pullFrom makes the repository here what it is at another server, which may have
// taken a push that is not accepted yet.
func (p *ControlPlane) pullFrom(ctx context.Context, name string) error {
	url, auth, err := p.replicaOf(name)
	if err != nil {
		return err
	}
	p.pulling.Lock()
	defer p.pulling.Unlock()
	p.pulled = time.Now()
	return p.remote.Pull(ctx, RepositoryName, url, auth)
}

// adoptFrom gives the repository here the refs of the store, with what it lacks
// from another server.
func (p *ControlPlane) adoptFrom(ctx context.Context, name string, refs map[string]string) (missing []string, err error) {
	url, auth, err := p.replicaOf(name)
	if err != nil {
		return nil, err
	}
	p.pulling.Lock()
	defer p.pulling.Unlock()
	return p.remote.AdoptFrom(ctx, RepositoryName, url, auth, refs)
}

// replicaOf is where the repository of another server is, and how to get in.
func (p *ControlPlane) replicaOf(name string) (url string, auth source.Auth, err error) {
	at, ok := p.presences.all(p.registry.Cache(), time.Now())[name]
	if !ok || name == p.member.Name {
		return "", auth, fmt.Errorf("there is no other server %q", name)
	}
	pair, err := p.authority.IssueClient(pki.Client{User: identity.APIServer, Groups: []string{user.SystemPrivilegedGroup}, TTL: time.Hour})
	if err != nil {
		return "", auth, err
	}
	return "https://" + at.address.String() + replicaPrefix + "/git/" + RepositoryName + ".git",
		source.Auth{CA: p.authority.CAPEM(), ClientCert: pair.CertPEM, ClientKey: pair.KeyPEM}, nil
}

// adoptRefs makes the repository of a server that begins to lead what the store
// says it is. It waits for others that have what is missing here; nothing of Git
// is served or applied before. begun says that the store knows of refs at all.
func (p *ControlPlane) adoptRefs(ctx context.Context) (begun bool) {
	for said := ""; ; {
		begun, why, err := p.adoptOnce(ctx)
		if err != nil && ctx.Err() == nil {
			why = err.Error()
		} else if err == nil && why == "" || ctx.Err() != nil {
			return begun
		}
		if why != said {
			said = why
			p.log("receive").Warn("the repository is not served yet: what was pushed is on servers that do not answer", "why", why)
		}
		select {
		case <-ctx.Done():
			return begun
		case <-time.After(time.Second):
		}
	}
}

func (p *ControlPlane) adoptOnce(ctx context.Context) (begun bool, missing string, err error) {
	have, refs, err := p.storedRefs(ctx)
	if err != nil || refs == nil {
		return false, "", err
	}
	lacks, err := p.remote.Adopt(RepositoryName, refs)
	if err != nil || len(lacks) == 0 {
		return true, "", err
	}
	missing, err = p.adoptFromOthers(ctx, have, refs)
	return true, missing, err
}

// adoptFromOthers asks every other server for what is missing here.
func (p *ControlPlane) adoptFromOthers(ctx context.Context, have *corev1.ConfigMap, refs map[string]string) (missing string, err error) {
	all, err := p.store.Members(ctx)
	if err != nil {
		return "", err
	}
	lacks, err := p.remote.Missing(RepositoryName, refs)
	if err != nil {
		return "", err
	}
	var failed []error
	for _, m := range all {
		if m.Self || m.Name == "" && m.Learner { // one that has not started has nothing
			continue
		}
		missing, err := p.adoptFrom(ctx, m.Name, refs)
		switch {
		case err != nil:
			failed = append(failed, err)
		case len(missing) == 0:
			return "", nil
		default:
			lacks = missing
		}
	}
	if len(failed) > 0 {
		return strings.Join(lacks, " "), errors.Join(failed...)
	}
	return "", p.dropLost(ctx, have, refs, lacks)
}

// dropLost gives up what was pushed and is on no server any more: every server of
// the cluster has said that it does not have it. The servers that had it were
// lost, or removed.
func (p *ControlPlane) dropLost(ctx context.Context, have *corev1.ConfigMap, refs map[string]string, lacks []string) error {
	here, err := p.remote.Refs(RepositoryName)
	if err != nil {
		return err
	}
	left := receive.Lost(refs, here, lacks)
	if err := p.storeRefs(ctx, have, left); err != nil {
		return err
	}
	for ref, sha := range refs {
		if left[ref] != sha {
			p.log("receive").Error("what was pushed is lost: no server of the cluster has it; push it again", "ref", ref, "commit", sha, "now", left[ref])
		}
	}
	if lacks, err = p.remote.Adopt(RepositoryName, left); err == nil && len(lacks) > 0 {
		err = fmt.Errorf("adopt what is left: %s is missing", strings.Join(lacks, " "))
	}
	return err
}

// followRefs keeps the copy of a server that does not lead, until ctx ends.
func (p *ControlPlane) followRefs(ctx context.Context) error {
	wake := make(chan struct{}, 1)
	err := p.registry.Cache().Subscribe(ctx, schema.ResourceFor[*corev1.ConfigMap](), func(ev client.Event) {
		if ev.Object != nil && schema.KeyOf(ev.Object) == refsObject {
			nudge(wake)
		}
	})
	if err != nil {
		return fmt.Errorf("subscribe to the refs of the repository: %w", err)
	}
	for {
		if err := p.catchUp(ctx); err != nil && ctx.Err() == nil {
			p.log("receive").Info("copy of the repository not in step yet", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-wake:
		case <-time.After(replicaLook):
		}
	}
}

func (p *ControlPlane) catchUp(ctx context.Context) error {
	o, ok := client.Cached[*corev1.ConfigMap](p.registry.Cache(), refsObject)
	if leads, _ := p.store.Lead(); leads || !ok || p.git.Load() != nil {
		return nil
	}
	want, err := parseRefs(o)
	if err != nil {
		return err
	}
	have, err := p.remote.Refs(RepositoryName)
	if err != nil || maps.Equal(want, have) {
		return err
	}
	// While a push is on its way, what it brought here must stay referred to.
	if p.pushUnderWay() {
		if missing, err := p.remote.Missing(RepositoryName, want); err != nil || len(missing) == 0 {
			return err
		}
	}
	all, err := p.store.Members(ctx)
	if err != nil {
		return err
	}
	for _, m := range all {
		if m.Leader && !m.Self {
			missing, err := p.adoptFrom(ctx, m.Name, want)
			if err == nil && len(missing) > 0 {
				err = fmt.Errorf("%s does not have %s", m.Name, strings.Join(missing, " "))
			}
			return err
		}
	}
	return errNoLeader
}

// pushUnderWay says that this server was asked for a push a moment ago which the
// store may not have yet.
func (p *ControlPlane) pushUnderWay() bool {
	p.pulling.Lock()
	defer p.pulling.Unlock()
	return time.Since(p.pulled) < keptWithin
}
