package cluster

import (
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/writ-os/writ/controlplane/auth/identity"
	"github.com/writ-os/writ/controlplane/auth/pki"
	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/reconciler/receive"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

func TestPushRules(t *testing.T) {
	repo := &v1alpha1.Repository{TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Repository"}, ObjectMeta: metav1.ObjectMeta{Name: RepositoryName}}
	fake := client.NewFake()
	if got := pushRules(fake.Cache()); got != nil {
		t.Errorf("without a Repository: %+v", got)
	}
	fake.Put(repo)
	if got := pushRules(fake.Cache()); got != nil {
		t.Errorf("without rules: %+v", got)
	}
	with := repo.DeepCopy()
	with.Spec.Pushes = []v1alpha1.PushRule{{Users: []string{"ann"}, Groups: []string{"web"}, Refs: []string{"refs/heads/main"}, Paths: []string{"web"}, Force: true, Delete: true}}
	fake.Put(with)
	want := []receive.Rule{{Users: []string{"ann"}, Groups: []string{"web"}, Refs: []string{"refs/heads/main"}, Paths: []string{"web"}, Force: true, Delete: true},
		{Groups: []string{user.SystemPrivilegedGroup}}}
	if got := pushRules(fake.Cache()); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
}

const rules = `  pushes:
  - {groups: [web], refs: [refs/heads/main], paths: [web]}
  - {groups: [platform]}
`

// Who may push what is said by the commit that is in force.
func TestPushRulesOfGit(t *testing.T) {
	s := startGit(t)
	s.commit(s.clone, "repository.yaml", declared(rules), "web/a.yaml", configMap("web", "1"), "infra/a.yaml", configMap("infra", "1"))
	s.accepted(as("t1")...)

	s.commit(s.clone, "web/a.yaml", configMap("web", "2"))
	s.refused(`remote: user "pusher" may clone and fetch but not push: pushing needs a rule that names the user or a group`, as("t1")...)
	s.commit(s.clone, "web/a.yaml", configMap("web", "2"), "infra/a.yaml", configMap("infra", "2"))
	s.refused(`user "ann" may not change infra/a.yaml on refs/heads/main: the right is to change web`, as("t2")...)
	s.commit(s.clone, "repository.yaml", declared("  pushes: [{users: [ann]}]\n"))
	s.refused(`user "ann" may not change repository.yaml`, as("t2")...)
	s.commit(s.clone, "web/a.yaml", configMap("web", "2"))
	s.accepted(as("t2")...)

	s.commit(s.clone, "repository.yaml", declared("  pushes: [{paths: [web]}]\n"))
	s.refused("remote: repository.yaml:6:12: spec.pushes[0].users: must name somebody, or groups must", as("t3")...)

	// The rules lock everyone out, but for break-glass.
	s.commit(s.clone, "repository.yaml", declared("  pushes: [{users: [nobody]}]\n"))
	s.accepted(as("t3")...)
	s.commit(s.clone, "repository.yaml", declared(""))
	s.refused("pushing needs a rule", as("t3")...)
	pair, err := s.authority.IssueClient(pki.Client{User: identity.Admin, Groups: []string{user.SystemPrivilegedGroup}, TTL: pki.BreakGlass})
	if err != nil {
		t.Fatal(err)
	}
	s.write(s.dir, "admin.crt", string(pair.CertPEM))
	s.write(s.dir, "admin.key", string(pair.KeyPEM))
	s.commit(s.clone, "repository.yaml", declared("  pushes: [{users: [pusher]}]\n"))
	s.accepted("-c", "http.sslCert="+filepath.Join(s.dir, "admin.crt"), "-c", "http.sslKey="+filepath.Join(s.dir, "admin.key"), "push", "-q", "origin", "main")
	s.commit(s.clone, "repository.yaml", declared(""))
	s.accepted(as("t1")...)
}

func (s *gitServer) mirror(i int) v1alpha1.MirrorStatus {
	if m := s.repository().Status.Mirrors; i < len(m) {
		return m[i]
	}
	return v1alpha1.MirrorStatus{}
}

func (s *gitServer) secret(password string) {
	s.Helper()
	c := client.Local(s.registry, user.Info(&user.DefaultInfo{Name: identity.Admin, Groups: []string{user.SystemPrivilegedGroup}}), "test")
	secret := &corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "copy"},
		Data: map[string][]byte{"username": []byte("writ"), "password": []byte(password)}}
	if _, err := client.Create(s.Context(), c, secret, client.WriteOptions{}); err == nil {
		return
	}
	if _, err := client.Update(s.Context(), c, secret, client.WriteOptions{}); err != nil {
		s.Fatal(err)
	}
}

// A push mirror comes with a commit, waits for its Secret, follows, sits out
// an absence of the other host, and goes with a commit.
func TestPushMirrorOfGit(t *testing.T) {
	s := startGit(t)
	b := s.elsewhere("copy")
	s.commit(s.clone, "a.yaml", configMap("a", "1"), "repository.yaml", declared("  mirrors:\n  - {url: \""+b.url+"\", credentialsSecret: default/copy}\n"))
	s.accepted(as("t1")...)
	s.soon("the missing Secret is told", func() bool {
		m := s.mirror(0)
		return m.FailingTime != nil && strings.Contains(m.Message, "the Secret default/copy, which is not there") && m.URL == b.url && m.Direction == v1alpha1.MirrorPush
	})
	s.secret("wrong")
	s.soon("the wrong password is told", func() bool {
		return strings.Contains(s.mirror(0).Message, "credentials") && !strings.Contains(s.mirror(0).Message, "Secret")
	})
	s.secret("secret")
	s.soon("the mirror is in step", func() bool {
		return s.mirror(0).InStepTime != nil && s.mirror(0).FailingTime == nil && s.mirror(0).Message == ""
	})

	var sha string
	for i := range 3 {
		s.commit(s.clone, "a.yaml", configMap("a", fmt.Sprint("more ", i)))
		sha = s.accepted(as("t1")...)
		s.soon("the mirror follows", func() bool { return s.git(b.dir, "rev-parse", "main") == sha })
	}
	b.away.Store(true)
	s.commit(s.clone, "a.yaml", configMap("a", "away"))
	sha = s.accepted(as("t1")...)
	s.soon("the absence is told", func() bool { return s.mirror(0).FailingTime != nil })
	b.away.Store(false)
	s.secret("secret")
	s.commit(s.clone, "a.yaml", configMap("a", "back"))
	sha = s.accepted(as("t1")...)
	s.soon("the mirror goes on", func() bool { return s.git(b.dir, "rev-parse", "main") == sha && s.mirror(0).FailingTime == nil })

	s.staleStatus()

	s.commit(s.clone, "repository.yaml", declared(""))
	s.accepted(as("t1")...)
	s.soon("the mirror is gone", func() bool { return s.repository().Status.Mirrors == nil })
	if head := s.git(b.dir, "rev-parse", "main"); head != sha && head != s.git(s.clone, "rev-parse", "main") {
		t.Errorf("main over there is %s", head)
	}
}

// staleStatus writes the status as the reconciler does, from a copy that has
// become old: neither writer undoes the other. The reconciler itself may write
// in between, but not each time.
func (s *gitServer) staleStatus() {
	s.Helper()
	want := s.repository().Status.Mirrors
	for range 5 {
		old := s.repository().DeepCopy()
		old.Status.Mirrors, old.Status.Objects, old.ResourceVersion = nil, 99, ""
		op := client.Op{Verb: client.VerbUpdate, Resource: schema.ResourceFor[*v1alpha1.Repository](), Key: schema.KeyOf(old), Object: old, Subresource: "status", FieldManager: "test"}
		if _, err := s.ControlPlane.as(identity.Reconciler).Transact(s.Context(), []client.Op{op}, false); err != nil {
			s.Fatal(err)
		}
		s.soon("the mirrors are in the status again", func() bool { return reflect.DeepEqual(s.repository().Status.Mirrors, want) })
		if s.repository().Status.Objects == 99 {
			return
		}
	}
	s.Error("the other writer's field is undone each time")
}

// A pull mirror brings commits in by the way of any push: they are checked.
func TestPullMirrorOfGit(t *testing.T) {
	s := startGit(t)
	b := s.elsewhere("upstream")
	s.secret("secret")
	s.commit(s.clone, "a.yaml", configMap("a", "1"),
		"repository.yaml", declared("  mirrors:\n  - {url: \""+b.url+"\", credentialsSecret: default/copy, direction: Pull, refs: [refs/heads/main], interval: 1s}\n"))
	first := s.accepted(as("t1")...)
	s.soon("the empty repository is told", func() bool { return strings.Contains(s.mirror(0).Message, "has none of the refs") })
	s.git(s.clone, "push", "-q", b.dir, "main")
	s.soon("the mirror is in step", func() bool { return s.mirror(0).InStepTime != nil && s.mirror(0).FailingTime == nil })

	there := filepath.Join(s.dir, "there")
	s.git(s.dir, "clone", "-q", b.dir, there)
	sha := s.commit(there, "a.yaml", configMap("a", "2"))
	s.git(there, "push", "-q", "origin", "main")
	s.inForce(sha)

	s.commit(there, "a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: default}\ndaata: {}\n")
	s.git(there, "push", "-q", "origin", "main")
	s.soon("a commit that is wrong is refused", func() bool {
		return strings.Contains(s.mirror(0).Message, `is refused: 1 finding; the cluster is unchanged; a.yaml:4:1: daata: there is no such field`)
	})
	if repo := s.repository(); repo.Status.Applied != sha || repo.Status.Applied == first {
		t.Errorf("in force is %s, want %s", repo.Status.Applied, sha)
	}
	sha = s.commit(there, "a.yaml", configMap("a", "3"))
	s.git(there, "push", "-q", "origin", "main")
	s.inForce(sha)
	s.soon("the mirror is in step again", func() bool { return s.mirror(0).FailingTime == nil })

	// What is only looked at is not written down.
	s.soon("both writers have ended", func() bool {
		st := s.repository().Status
		return st.Healthy == sha && equality.Semantic.DeepEqual(st.Mirrors, mirrorStatus(s.ControlPlane.git.Load().remote.Mirrors()))
	})
	before, looked := s.repository(), s.ControlPlane.git.Load().remote.Mirrors()[0].Looked
	s.soon("three more looks", func() bool {
		return s.ControlPlane.git.Load().remote.Mirrors()[0].Looked.After(looked.Add(3 * time.Second))
	})
	if after := s.repository(); after.ResourceVersion != before.ResourceVersion {
		t.Errorf("written again: %+v\nbefore: %+v", after.Status, before.Status)
	}
}
