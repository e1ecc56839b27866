package cluster

import (
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/writ-os/writ/controlplane/auth/bootstrap"
	"github.com/writ-os/writ/controlplane/auth/identity"
	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

// A pod's own token and one by which machines join are signed in, and read nothing
// of Git; a ClusterRole lets a user in, and who may push is in.
func TestFetchRightsOfGit(t *testing.T) {
	s := startGit(t)
	s.commit(s.clone, "a.yaml", configMap("a", "1"))
	s.accepted(as("t1")...)
	admin := client.Local(s.registry, user.Info(&user.DefaultInfo{Name: identity.Admin, Groups: []string{user.SystemPrivilegedGroup}}), "test")
	if _, err := client.Create(t.Context(), admin, bootstrap.NewSecret("abcdef.0123456789abcdef", identity.JoinersGroup, "", time.Time{}), client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	var pod string
	s.soon("a token of the default service account", func() bool {
		tr, err := s.tokens.Request(t.Context(), schema.Key{Namespace: "default", Name: "default"}, &authenticationv1.TokenRequest{})
		if err == nil {
			pod = tr.Status.Token
		}
		return err == nil
	})
	list := func(token string) (string, error) {
		return s.tryGit(s.clone, "-c", "credential.helper=!f() { echo username=any; echo password="+token+"; }; f", "ls-remote", "origin")
	}
	for name, token := range map[string]string{"pod": pod, "joining machine": "abcdef.0123456789abcdef", "ann": "t2"} {
		if out, err := list(token); err == nil || !strings.Contains(out, "may not clone or fetch: fetching needs the verb get on repositories/git") {
			t.Errorf("%s: %v %s", name, err, out)
		}
	}
	if out, err := list("t1"); err != nil || !strings.Contains(out, "refs/heads/main") {
		t.Errorf("pusher: %v %s", err, out)
	}
	role := &rbacv1.ClusterRole{TypeMeta: metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole"}, ObjectMeta: metav1.ObjectMeta{Name: "reader"},
		Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{"writ.dev"}, Resources: []string{"repositories/git"}, ResourceNames: []string{RepositoryName}}}}
	binding := &rbacv1.ClusterRoleBinding{TypeMeta: metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRoleBinding"}, ObjectMeta: metav1.ObjectMeta{Name: "reader"},
		RoleRef: rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: "reader"}, Subjects: []rbacv1.Subject{{Kind: "Group", APIGroup: "rbac.authorization.k8s.io", Name: "web"}}}
	if _, err := client.Create(t.Context(), admin, role, client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Create(t.Context(), admin, binding, client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.soon("ann may fetch", func() bool {
		_, err := list("t2")
		return err == nil
	})
}
