package token

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

// clock is a clock that tests set.
type clock struct{ now time.Time }

type fixture struct {
	*Authority
	fake  *client.Fake
	clock *clock
	key   *ecdsa.PrivateKey
}

func newFixture(t testing.TB, objects ...schema.Object) *fixture {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{fake: client.NewFake(objects...), clock: &clock{time.Now().Truncate(time.Second)}, key: key}
	if f.Authority, err = New(Config{Key: key, Cache: f.fake.Cache(), Now: func() time.Time { return f.clock.now }}); err != nil {
		t.Fatal(err)
	}
	return f
}

var (
	web     = schema.Key{Namespace: "shop", Name: "web"}
	account = &corev1.ServiceAccount{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"}, ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "sa-uid"}}
	pod     = &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1", UID: "pod-uid"},
		Spec: corev1.PodSpec{ServiceAccountName: "web", NodeName: "a"}}
	secret = &corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "s", UID: "secret-uid"}}
	node   = &corev1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "node-uid"}}
)

func boundTo(kind, name string, uid types.UID) *authenticationv1.BoundObjectReference {
	return &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: kind, Name: name, UID: uid}
}

func (f *fixture) issue(t testing.TB, spec authenticationv1.TokenRequestSpec) *authenticationv1.TokenRequest {
	t.Helper()
	out, err := f.Request(context.Background(), web, &authenticationv1.TokenRequest{Spec: spec})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func seconds(n int64) *int64 { return &n }

func TestTokenOfPod(t *testing.T) {
	f := newFixture(t, account, pod, secret, node)
	tr := f.issue(t, authenticationv1.TokenRequestSpec{BoundObjectRef: boundTo("Pod", "web-1", "pod-uid"), ExpirationSeconds: seconds(3607)})
	u, audiences, err := f.Authenticate(tr.Status.Token, nil)
	if err != nil {
		t.Fatal(err)
	}
	if u.GetName() != "system:serviceaccount:shop:web" || u.GetUID() != "sa-uid" || strings.Join(u.GetGroups(), " ") != "system:serviceaccounts system:serviceaccounts:shop" {
		t.Errorf("user %q %q %v", u.GetName(), u.GetUID(), u.GetGroups())
	}
	for k, want := range map[string]string{
		"authentication.kubernetes.io/pod-name": "web-1", "authentication.kubernetes.io/pod-uid": "pod-uid",
		"authentication.kubernetes.io/node-name": "a", "authentication.kubernetes.io/node-uid": "node-uid",
	} {
		if got := u.GetExtra()[k]; len(got) != 1 || got[0] != want {
			t.Errorf("extra %s = %v, want %s", k, got, want)
		}
	}
	if len(audiences) != 1 || audiences[0] != "https://kubernetes.default.svc.cluster.local" {
		t.Errorf("audiences %v", audiences)
	}
	// What the pod asks for is an hour; it is let off for a year.
	if got := tr.Status.ExpirationTimestamp.Sub(f.clock.now); got != 3607*time.Second {
		t.Errorf("said to expire after %s", got)
	}
	f.clock.now = f.clock.now.Add(300 * 24 * time.Hour)
	if _, _, err := f.Authenticate(tr.Status.Token, nil); err != nil {
		t.Errorf("after 300 days: %v", err)
	}
	f.clock.now = f.clock.now.Add(66 * 24 * time.Hour)
	if _, _, err := f.Authenticate(tr.Status.Token, nil); err == nil {
		t.Error("good after a year and a day")
	}
}

// TestClaims holds the names of the claims against those that relying parties
// of Kubernetes tokens read.
func TestClaims(t *testing.T) {
	f := newFixture(t, account, pod, node)
	tr := f.issue(t, authenticationv1.TokenRequestSpec{BoundObjectRef: boundTo("Pod", "web-1", "pod-uid"), ExpirationSeconds: seconds(3607)})
	parts := strings.Split(tr.Status.Token, ".")
	data, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	k8s, ok := got["kubernetes.io"].(map[string]any)
	if !ok || k8s["namespace"] != "shop" || k8s["warnafter"] == nil {
		t.Errorf("claims %s", data)
	}
	for kind, want := range map[string][2]string{"serviceaccount": {"web", "sa-uid"}, "pod": {"web-1", "pod-uid"}, "node": {"a", "node-uid"}} {
		if ref, _ := k8s[kind].(map[string]any); ref["name"] != want[0] || ref["uid"] != want[1] {
			t.Errorf("claim %s: %v", kind, ref)
		}
	}
	for _, name := range []string{"aud", "exp", "iat", "iss", "jti", "nbf", "sub"} {
		if got[name] == nil {
			t.Errorf("no claim %s", name)
		}
	}
	if _, ok := got["aud"].([]any); !ok {
		t.Errorf("aud is no list: %v", got["aud"])
	}
}

// TestTokenDies: a token is good as long as all that it is bound to.
func TestTokenDies(t *testing.T) {
	gone := func(o schema.Object) func(*fixture) {
		return func(f *fixture) {
			now := int64(0)
			if err := f.fake.Delete(context.Background(), schema.ResourceOf(o), schema.KeyOf(o), client.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
				panic(err)
			}
		}
	}
	again := func(o schema.Object) func(*fixture) {
		return func(f *fixture) {
			next := o.DeepCopyObject().(schema.Object)
			next.SetUID("another")
			f.fake.Put(next)
		}
	}
	after := func(d time.Duration) func(*fixture) {
		return func(f *fixture) { f.clock.now = f.clock.now.Add(d) }
	}
	for _, tt := range []struct {
		name string
		ref  *authenticationv1.BoundObjectReference
		then func(*fixture)
		good bool
	}{
		{"nothing happens", boundTo("Pod", "web-1", ""), func(*fixture) {}, true},
		{"the account is gone", nil, gone(account), false},
		{"another account of the name", nil, again(account), false},
		{"the pod is gone", boundTo("Pod", "web-1", ""), gone(pod), false},
		{"another pod of the name", boundTo("Pod", "web-1", ""), again(pod), false},
		{"the node of the pod is gone", boundTo("Pod", "web-1", ""), gone(node), true},
		{"the secret is gone", boundTo("Secret", "s", ""), gone(secret), false},
		{"the node is gone", boundTo("Node", "a", ""), gone(node), false},
		{"another node of the name", boundTo("Node", "a", ""), again(node), false},
		{"an hour later", nil, after(time.Hour), true}, // the leeway
		{"an hour and more later", nil, after(time.Hour + 2*leeway), false},
		{"before it was issued", nil, after(-time.Hour), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t, account, pod, secret, node)
			token := f.issue(t, authenticationv1.TokenRequestSpec{BoundObjectRef: tt.ref}).Status.Token
			if _, _, err := f.Authenticate(token, nil); err != nil {
				t.Fatal(err) // also remembers the signature
			}
			tt.then(f)
			if _, _, err := f.Authenticate(token, nil); (err == nil) != tt.good {
				t.Errorf("good: %v, err %v", tt.good, err)
			}
		})
	}
}

func TestAudiences(t *testing.T) {
	f := newFixture(t, account)
	vault := f.issue(t, authenticationv1.TokenRequestSpec{Audiences: []string{"vault", "bank"}}).Status.Token
	if _, _, err := f.Authenticate(vault, nil); err == nil || errors.Is(err, ErrForeign) {
		t.Errorf("a token for vault is good here: %v", err)
	}
	if _, got, err := f.Authenticate(vault, []string{"x", "vault"}); err != nil || len(got) != 1 || got[0] != "vault" {
		t.Errorf("audiences %v, %v", got, err)
	}
}

func TestRequestRefuses(t *testing.T) {
	f := newFixture(t, account, pod, node)
	other := pod.DeepCopy()
	other.Name, other.Spec.ServiceAccountName = "other", "x"
	f.fake.Put(other)
	far := pod.DeepCopy()
	far.Name, far.UID, far.Spec.NodeName = "far", "far-uid", "b"
	f.fake.Put(far)
	onA := request.WithUser(context.Background(), &user.DefaultInfo{Name: "system:node:a", Groups: []string{user.NodesGroup}})
	for _, tt := range []struct {
		name string
		ctx  context.Context
		key  schema.Key
		req  authenticationv1.TokenRequest
		is   func(error) bool
	}{
		{"no such account", nil, schema.Key{Namespace: "shop", Name: "nobody"}, authenticationv1.TokenRequest{}, apierrors.IsNotFound},
		{"no such pod", nil, web, authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: boundTo("Pod", "none", "")}}, apierrors.IsNotFound},
		{"a pod of another account", nil, web, authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: boundTo("Pod", "other", "")}}, apierrors.IsBadRequest},
		{"a pod of another UID", nil, web, authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: boundTo("Pod", "web-1", "x")}}, apierrors.IsConflict},
		{"another kind", nil, web, authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: boundTo("ConfigMap", "web-1", "")}}, apierrors.IsBadRequest},
		{"too short", nil, web, authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: seconds(60)}}, apierrors.IsInvalid},
		{"too long", nil, web, authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: seconds(1 << 33)}}, apierrors.IsInvalid},
		{"another name", nil, web, authenticationv1.TokenRequest{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, apierrors.IsInvalid},
		{"another UID", nil, web, authenticationv1.TokenRequest{ObjectMeta: metav1.ObjectMeta{UID: "x"}}, apierrors.IsConflict},
		{"a node without a pod", onA, web, authenticationv1.TokenRequest{}, apierrors.IsForbidden},
		{"a node without a UID", onA, web, authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: boundTo("Pod", "web-1", "")}}, apierrors.IsForbidden},
		{"a node for another's pod", onA, web, authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: boundTo("Pod", "far", "far-uid")}}, apierrors.IsForbidden},
		{"a node for its pod", onA, web, authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: boundTo("Pod", "web-1", "pod-uid")}}, func(err error) bool { return err == nil }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx := tt.ctx
			if ctx == nil {
				ctx = context.Background()
			}
			if _, err := f.Request(ctx, tt.key, &tt.req); !tt.is(err) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestForged tries what forgers try.
func TestForged(t *testing.T) {
	f, foreign := newFixture(t, account), newFixture(t, account)
	good := f.issue(t, authenticationv1.TokenRequestSpec{}).Status.Token
	parts := strings.Split(good, ".")
	b64 := base64.RawURLEncoding.EncodeToString
	rs := func(claims map[string]any, method jwt.SigningMethod, key any) string {
		s, err := jwt.NewWithClaims(method, jwt.MapClaims(claims)).SignedString(key)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	ours := func(sub string) map[string]any {
		return map[string]any{"iss": f.cfg.Issuer, "aud": f.cfg.Audiences, "sub": sub, "exp": time.Now().Add(time.Hour).Unix(),
			"kubernetes.io": map[string]any{"namespace": "shop", "serviceaccount": map[string]any{"name": "web", "uid": "sa-uid"}}}
	}
	noExpiry := ours("system:serviceaccount:shop:web")
	delete(noExpiry, "exp")
	point, _ := f.key.PublicKey.Bytes()
	for name, token := range map[string]string{
		"nothing":                   "",
		"no JWT":                    "abc",
		"of another cluster":        foreign.issue(t, authenticationv1.TokenRequestSpec{}).Status.Token,
		"other claims":              parts[0] + "." + b64([]byte(strings.Replace(decode(t, parts[1]), "sa-uid", "sa-uix", 1))) + "." + parts[2],
		"no signature":              parts[0] + "." + parts[1] + ".",
		"signature cut":             good[:len(good)-2],
		"algorithm none":            rs(ours("system:serviceaccount:shop:web"), jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType),
		"public key as HMAC secret": rs(ours("system:serviceaccount:shop:web"), jwt.SigningMethodHS256, point),
		"subject is another":        rs(ours("system:serviceaccount:kube-system:root"), jwt.SigningMethodES256, f.key),
		"no expiry":                 rs(noExpiry, jwt.SigningMethodES256, f.key),
		"huge":                      strings.Repeat("a", maxToken) + "." + parts[1] + "." + parts[2],
	} {
		if u, _, err := f.Authenticate(token, nil); err == nil {
			t.Errorf("%s: taken for %s", name, u.GetName())
		}
	}
	if _, _, err := f.Authenticate(good, nil); err != nil {
		t.Errorf("the real one: %v", err)
	}
}

func decode(t *testing.T, s string) string {
	t.Helper()
	data, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestJWKS verifies a token by the published key alone.
func TestJWKS(t *testing.T) {
	f := newFixture(t, account)
	data, err := f.JWKS()
	if err != nil {
		t.Fatal(err)
	}
	var set struct {
		Keys []struct{ Kid, Kty, Crv, Alg, Use, X, Y string }
	}
	if err := json.Unmarshal(data, &set); err != nil || len(set.Keys) != 1 {
		t.Fatalf("%s: %v", data, err)
	}
	k := set.Keys[0]
	public, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), append(append([]byte{4}, decode(t, k.X)...), decode(t, k.Y)...))
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := jwt.Parse(f.issue(t, authenticationv1.TokenRequestSpec{}).Status.Token, func(tok *jwt.Token) (any, error) {
		if tok.Header["kid"] != k.Kid {
			t.Errorf("kid %v, want %s", tok.Header["kid"], k.Kid)
		}
		return public, nil
	})
	if err != nil || !parsed.Valid {
		t.Errorf("verify: %v", err)
	}
	doc, err := f.OpenIDConfiguration("https://10.96.0.1/openid/v1/jwks")
	if err != nil || !strings.Contains(string(doc), `"issuer":"https://kubernetes.default.svc.cluster.local"`) || !strings.Contains(string(doc), `"ES256"`) {
		t.Errorf("%s: %v", doc, err)
	}
}

// FuzzAuthenticate: whatever comes in, nobody gets in but by the real token.
func FuzzAuthenticate(f *testing.F) {
	x := newFixture(f, account)
	good := x.issue(f, authenticationv1.TokenRequestSpec{}).Status.Token
	f.Add(good)
	f.Add("")
	f.Add("a.b.c")
	f.Add("eyJhbGciOiJub25lIn0.e30.")
	f.Add(good[:len(good)/2])
	f.Fuzz(func(t *testing.T, token string) {
		u, _, err := x.Authenticate(token, nil)
		if err == nil && token != good {
			t.Fatalf("%q is taken for %s", token, u.GetName())
		}
	})
}

func BenchmarkAuthenticate(b *testing.B) {
	f := newFixture(b, account, pod, node)
	token := f.issue(b, authenticationv1.TokenRequestSpec{BoundObjectRef: boundTo("Pod", "web-1", "")}).Status.Token
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := f.Authenticate(token, nil); err != nil {
			b.Fatal(err)
		}
	}
}
