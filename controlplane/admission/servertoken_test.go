package admission

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/writ-os/writ/controlplane/auth/identity"
	"github.com/writ-os/writ/controlplane/registry"
	"github.com/writ-os/writ/schema"
)

// TestServerTokens: the right to write Secrets is not that of making servers.
func TestServerTokens(t *testing.T) {
	token := func(namespace, groups string, labels map[string]string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "bootstrap-token-abcdef", Labels: labels},
			Type: "bootstrap.kubernetes.io/token", Data: map[string][]byte{"auth-extra-groups": []byte(groups)}}
	}
	changed := func(s *corev1.Secret) *corev1.Secret {
		s = s.DeepCopy()
		s.Data["token-secret"] = []byte("0123456789abcdef")
		return s
	}
	tenant, admin := &user.DefaultInfo{Name: "ann"}, &user.DefaultInfo{Name: "root", Groups: []string{user.SystemPrivilegedGroup}}
	server, nodes := token("kube-system", identity.JoinersGroup+","+identity.ServersGroup, nil), token("kube-system", identity.JoinersGroup, nil)
	for _, c := range []struct {
		name    string
		user    user.Info
		old, s  *corev1.Secret
		refused bool
	}{
		{"a tenant makes a server's", tenant, nil, server, true},
		{"a tenant makes a node's one of servers", tenant, nodes, server, true},
		{"a tenant gives one another secret", tenant, server, changed(server), true},
		{"Git declares one", identity.System(identity.Reconciler), nil, server, true},
		{"an administrator makes one", admin, nil, server, false},
		{"a controller labels one", tenant, server, token("kube-system", string(server.Data["auth-extra-groups"]), map[string]string{"a": "b"}), false},
		{"a tenant makes a node's", tenant, nil, nodes, false},
		{"a Secret of another namespace", tenant, nil, token("shop", identity.ServersGroup, nil), false},
	} {
		a := &registry.Attributes{Verb: "create", Resource: schema.ResourceFor[*corev1.Secret](), Key: schema.KeyOf(c.s), Object: c.s, User: c.user}
		if c.old != nil {
			a.Verb, a.Old = "update", c.old
		}
		if err := (&ServerTokens{}).Validate(t.Context(), a); (err != nil) != c.refused {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
