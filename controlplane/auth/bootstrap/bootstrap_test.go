package bootstrap

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
)

const token = "abcdef.0123456789abcdef"

var now = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func secret(change func(*corev1.Secret)) *corev1.Secret {
	s := &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "bootstrap-token-abcdef"},
		Type:       "bootstrap.kubernetes.io/token",
		Data: map[string][]byte{
			"token-id": []byte("abcdef"), "token-secret": []byte("0123456789abcdef"),
			"usage-bootstrap-authentication": []byte("true"), "usage-bootstrap-signing": []byte("true"),
			"expiration": []byte(now.Add(time.Hour).Format(time.RFC3339)),
		},
	}
	if change != nil {
		change(s)
	}
	return s
}

func set(key, value string) func(*corev1.Secret) {
	return func(s *corev1.Secret) { s.Data[key] = []byte(value) }
}

func TestTokens(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*corev1.Secret)
		token  string
		groups string // "" is refused
	}{
		{"good", nil, token, "system:bootstrappers"},
		{"without expiration", func(s *corev1.Secret) { delete(s.Data, "expiration") }, token, "system:bootstrappers"},
		{"extra groups", set("auth-extra-groups", "system:bootstrappers:workers,system:bootstrappers:a"), token, "system:bootstrappers system:bootstrappers:a system:bootstrappers:workers"},
		{"a group of others", set("auth-extra-groups", "system:masters"), token, ""},
		{"wrong secret", nil, "abcdef.0123456789abcdee", ""},
		{"wrong id", nil, "abcdeg.0123456789abcdef", ""},
		{"no token at all", nil, "abcdef", ""},
		{"empty", nil, "", ""},
		{"upper case", nil, "ABCDEF.0123456789abcdef", ""},
		{"expired", set("expiration", now.Format(time.RFC3339)), token, ""},
		{"expiration cannot be read", set("expiration", "tomorrow"), token, ""},
		{"not for authentication", set("usage-bootstrap-authentication", "yes"), token, ""},
		{"other id inside", set("token-id", "abcdeg"), token, ""},
		{"other type", func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque }, token, ""},
		{"other namespace", func(s *corev1.Secret) { s.Namespace = "default" }, token, ""},
		{"being deleted", func(s *corev1.Secret) { s.DeletionTimestamp, s.Finalizers = &metav1.Time{Time: now}, []string{"x/y"} }, token, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := New(Config{Cache: client.NewFake(secret(tt.change)).Cache(), Now: func() time.Time { return now }})
			r, ok, err := a.AuthenticateToken(t.Context(), tt.token)
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				if tt.groups != "" {
					t.Error("refused")
				}
				return
			}
			if got := strings.Join(r.User.GetGroups(), " "); got != tt.groups || r.User.GetName() != "system:bootstrap:abcdef" {
				t.Errorf("%s in %q, want %q", r.User.GetName(), got, tt.groups)
			}
		})
	}
}

func clusterInfo() *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ClusterInfoNamespace, Name: ClusterInfoName}, Data: map[string]string{
		"kubeconfig": "clusters: []\n", "jws-kubeconfig-gone99": "x", "other": "kept"}}
}

func TestSigned(t *testing.T) {
	info := clusterInfo()
	expired := secret(set("expiration", now.Format(time.RFC3339)))
	unsigned := secret(set("usage-bootstrap-signing", "false"))
	for _, s := range []*corev1.Secret{expired, unsigned} {
		if next, changed, err := Signed(info, []*corev1.Secret{s}, now); err != nil || !changed || len(next.Data) != 2 {
			t.Errorf("signed by %v: %v, %v, %v", s.Data, next.Data, changed, err)
		}
	}
	next, changed, err := Signed(info, []*corev1.Secret{secret(nil)}, now)
	if err != nil || !changed || next.Data["other"] != "kept" || next.Data["jws-kubeconfig-gone99"] != "" {
		t.Fatalf("%v, %v, %v", next.Data, changed, err)
	}
	if info.Data["jws-kubeconfig-abcdef"] != "" {
		t.Error("the given object was changed")
	}
	if again, changed, err := Signed(next, []*corev1.Secret{secret(nil)}, now); err != nil || changed {
		t.Errorf("signed again: %v, %v", again.Data, err)
	}
	if content, err := Verify(next, token); err != nil || content != "clusters: []\n" {
		t.Errorf("%q, %v", content, err)
	}
	for _, bad := range []string{"abcdef.0123456789abcdee", "zzzzzz.0123456789abcdef", "abcdef", ""} {
		if _, err := Verify(next, bad); err == nil {
			t.Errorf("verified by %q", bad)
		}
	}
	next.Data["kubeconfig"] = "clusters: [evil]\n"
	if _, err := Verify(next, token); err == nil {
		t.Error("verified after a change")
	}
	if _, _, err := Signed(&corev1.ConfigMap{}, nil, now); err == nil {
		t.Error("signed nothing")
	}
}

// TestSignatureOfUpstream: what kubeadm's signer wrote verifies.
func TestSignatureOfUpstream(t *testing.T) {
	info := &corev1.ConfigMap{Data: map[string]string{
		"kubeconfig":            "Hello from the other side. I must have called a thousand times.",
		"jws-kubeconfig-joshua": "eyJhbGciOiJIUzI1NiIsImtpZCI6Impvc2h1YSJ9..VShe2taLd-YTrmWuRkcL_8QTNDHYxQIEBsAYYiIj1_8",
	}}
	if _, err := Verify(info, "joshua.my voice is my passcode"); err != nil {
		t.Error(err)
	}
}

func FuzzVerify(f *testing.F) {
	f.Add("eyJhbGciOiJIUzI1NiIsImtpZCI6ImFiY2RlZiJ9..AAAA", "content")
	f.Add("..", "")
	f.Add("eyJhbGciOiJub25lIn0..", "content")
	f.Fuzz(func(t *testing.T, signature, content string) {
		info := &corev1.ConfigMap{Data: map[string]string{"kubeconfig": content, "jws-kubeconfig-abcdef": signature}}
		if _, err := Verify(info, token); err == nil {
			good, _, err := Signed(info, []*corev1.Secret{secret(nil)}, now)
			if err != nil || !slices.Contains([]string{good.Data["jws-kubeconfig-abcdef"]}, signature) {
				t.Errorf("forged %q for %q", signature, content)
			}
		}
	})
}
