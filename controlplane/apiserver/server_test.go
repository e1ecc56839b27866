package apiserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/writ-os/writ/controlplane/apiserver"
	"github.com/writ-os/writ/controlplane/auth"
	"github.com/writ-os/writ/controlplane/auth/token"
)

func TestHealth(t *testing.T) {
	var broken error
	c := newCluster(t, func(cfg *apiserver.Config) {
		cfg.Checks = []apiserver.Check{{Name: "reconciler", Check: func(context.Context) error { return broken }}}
	})
	const ready = "[+]ping ok\n[+]log ok\n[+]etcd ok\n[+]etcd-readiness ok\n[+]informer-sync ok\n[+]shutdown ok\n"
	for _, tt := range []struct {
		path, want string
		code       int
		broken     error
	}{
		{"/livez/ping", "ok", 200, nil},
		{"/readyz/reconciler", "internal server error: x\n", 500, errors.New("x")},
		{"/healthz?exclude=nothing&verbose", "[+]ping ok\n[+]log ok\n[+]etcd ok\nwarn: some health checks cannot be excluded: no matches for \"nothing\"\nhealthz check passed\n", 200, nil},
		{"/readyz", "ok", 200, nil},
		{"/healthz", "ok", 200, nil},
		{"/livez?verbose", "[+]ping ok\n[+]log ok\n[+]etcd ok\nlivez check passed\n", 200, nil},
		{"/readyz?verbose", ready + "[+]reconciler ok\nreadyz check passed\n", 200, nil},
		{"/readyz/etcd", "ok", 200, nil},
		{"/readyz/nothing", "404 page not found\n", 404, nil},
		{"/readyz", ready + "[-]reconciler failed: reason withheld\nreadyz check failed\n", 500, errors.New("x")},
		{"/readyz?exclude=reconciler", "ok", 200, errors.New("x")},
		{"/livez", "ok", 200, errors.New("x")},
	} {
		broken = tt.broken
		if r := c.do(t, "", "GET", tt.path, ""); r.code != tt.code || r.body != tt.want {
			t.Errorf("%s: %d %q, want %d %q", tt.path, r.code, r.body, tt.code, tt.want)
		}
	}
}

func TestHeaders(t *testing.T) {
	c := newCluster(t)
	r := c.do(t, "admin", "GET", "/api/v1/namespaces/default", "", "Audit-Id: mine")
	for name, want := range map[string]string{
		"Audit-Id": "mine", "Cache-Control": "no-cache, private", "Content-Type": "application/json",
	} {
		if got := r.header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if _, ok := r.header["X-Kubernetes-Pf-Flowschema-Uid"]; !ok {
		t.Error("no flow schema: clients keep their own throttle")
	}
	if r.proto != 2 {
		t.Errorf("HTTP/%d, want 2", r.proto)
	}
	w := c.do(t, "admin", "POST", cmPath, `{"metadata":{"name":"c"},"data":{"a":"1","a":"2"},"dat":"\"x"}`)
	if got := strings.Join(w.header["Warning"], ";"); w.code != 201 || got != `299 - "duplicate field \"data.a\"";299 - "unknown field \"dat\""` {
		t.Errorf("warnings: %d %s", w.code, got)
	}
	if got := c.do(t, "admin", "POST", cmPath+"?fieldValidation=Ignore", `{"metadata":{"name":"d"},"dat":"x"}`); got.code != 201 || got.header["Warning"] != nil {
		t.Errorf("ignored: %d %v", got.code, got.header)
	}
	if y := c.do(t, "admin", "POST", cmPath+"?dryRun=All", "metadata: {name: doc}\ndata: {a: b}\n", "Content-Type: application/yaml", "Accept: application/yaml"); y.code != 201 || !strings.HasPrefix(y.body, "apiVersion: v1") {
		t.Errorf("YAML: %d %s", y.code, y.body)
	}
	if got := c.do(t, "admin", "GET", cmPath+"/doc", ""); got.code != 404 {
		t.Errorf("a dry run is stored: %d", got.code)
	}
	pretty := c.do(t, "admin", "GET", "/api/v1/namespaces", "", "User-Agent: curl/8")
	if !strings.HasPrefix(pretty.body, "{\n  \"kind\": \"NamespaceList\"") {
		t.Errorf("for people: %.60s", pretty.body)
	}
}

func TestMountAndDocuments(t *testing.T) {
	c := newCluster(t, func(cfg *apiserver.Config) {
		cfg.Mounts = []apiserver.Mount{{Prefix: "/git/", Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			name := "nobody"
			if u, ok := request.UserFrom(r.Context()); ok {
				name = u.GetName()
			}
			fmt.Fprint(w, name, " ", r.URL.Path)
		})}}
		cfg.Documents = []apiserver.Document{{Path: "/openid/v1/jwks", ContentType: "application/jwk-set+json", Read: func() ([]byte, error) { return []byte("{}"), nil }}}
	})
	for user, want := range map[string]string{"": "nobody", "bad": "nobody", "alice": "alice"} {
		if r := c.do(t, user, "GET", "/git/repo/info/refs", ""); r.body != want+" /git/repo/info/refs" {
			t.Errorf("mount as %q: %s", user, r.body)
		}
	}
	if r := c.do(t, "", "GET", "/openid/v1/jwks", ""); r.code != 200 || r.body != "{}" || r.header.Get("Content-Type") != "application/jwk-set+json" {
		t.Errorf("document: %+v", r)
	}
}

// TestProfile: administrators read profiles, where they are served; others do
// not learn whether they are.
func TestProfile(t *testing.T) {
	for _, served := range []bool{true, false} {
		c := newCluster(t, func(cfg *apiserver.Config) { cfg.Profiling = served })
		for path, want := range map[string]string{
			"/debug/pprof/": "full goroutine stack dump", "/debug/pprof": "full goroutine stack dump", "/debug/pprof/goroutine?debug=1": "goroutine profile: total", "/debug/pprof/symbol": "num_symbols",
			"/debug/pprof/cmdline": "test", "/debug/pprof/nothing": "Unknown profile", "/debug/other": "404 page not found",
		} {
			if !served {
				want = "404 page not found"
			}
			if r := c.do(t, "admin", "GET", path, ""); !strings.Contains(r.body, want) {
				t.Errorf("%s, served %v: %d %.200s", path, served, r.code, r.body)
			}
			if r := c.do(t, "alice", "GET", path, ""); r.code != 403 {
				t.Errorf("%s, served %v, as anybody: %d", path, served, r.code)
			}
		}
	}
}

func TestSocket(t *testing.T) {
	dir, err := os.MkdirTemp("", "s") // paths of sockets are short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	if err := os.WriteFile(path, nil, 0o644); err != nil { // left by a process that died
		t.Fatal(err)
	}
	newCluster(t, func(cfg *apiserver.Config) { cfg.Socket = path })
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("socket: %v %v", info, err)
	}
	tr := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}
	t.Cleanup(tr.CloseIdleConnections)
	resp, err := (&http.Client{Transport: tr}).Post("http://x/apis/authentication.k8s.io/v1/selfsubjectreviews", "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var who authenticationv1.SelfSubjectReview
	if err := json.NewDecoder(resp.Body).Decode(&who); err != nil || who.Status.UserInfo.Username != "system:admin" {
		t.Fatalf("user of the socket: %+v %v", who, err)
	}
}

func TestReviews(t *testing.T) {
	c := newCluster(t)
	ctx := t.Context()
	can := func(user, verb, resource string) bool {
		t.Helper()
		r, err := c.clientset(t, "admin").AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
			Spec: authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Resource: resource, Namespace: "default"}},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return r.Status.Allowed
	}
	if !can("reader", "get", "pods") || can("reader", "delete", "pods") || can("alice", "get", "pods") {
		t.Error("subject access reviews are wrong")
	}
	// What a selector leaves of a collection may be allowed where the whole is not.
	for query, want := range map[string]int{"?fieldSelector=spec.nodeName%3Dn1": 200, "?fieldSelector=spec.nodeName%3Dn2": 403, "": 403, "?fieldSelector=%3D%3D": 403} {
		if r := c.do(t, "node", "GET", "/api/v1/pods"+query, ""); r.code != want {
			t.Errorf("list pods%s as a node: %d, want %d", query, r.code, want)
		}
	}
	// A client may act as another one where it is allowed to.
	cfg := c.config("admin")
	cfg.Impersonate = rest.ImpersonationConfig{UserName: "reader", Groups: []string{"readers"}, Extra: map[string][]string{"note": {"x"}}}
	as, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	who, err := as.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err == nil {
		t.Errorf("reader may post reviews: %v", who)
	}
	if _, err := as.CoreV1().Pods("default").List(ctx, metav1.ListOptions{}); err != nil {
		t.Errorf("list as reader: %v", err)
	}
	if _, err := as.CoreV1().Pods("default").Watch(ctx, metav1.ListOptions{}); err == nil || !strings.Contains(err.Error(), `User "reader" cannot watch`) {
		t.Errorf("watch as reader: %v", err)
	}
}

// The parts of auth are what the server asks for.
var (
	_ apiserver.TokenIssuer   = (*token.Authority)(nil)
	_ apiserver.TokenReader   = (*token.Authority)(nil)
	_ apiserver.Authenticator = (*auth.Authenticator)(nil)
	_ apiserver.Rules         = (*auth.Authorizer)(nil)
	_ authorizer.Authorizer   = (*auth.Authorizer)(nil)
)

func TestPanic(t *testing.T) {
	c := newCluster(t, func(cfg *apiserver.Config) {
		cfg.Mounts = []apiserver.Mount{{Prefix: "/boom", Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("boom") })}}
	})
	if r := c.do(t, "admin", "GET", "/boom", ""); r.code != 500 || !strings.Contains(r.body, "InternalError") {
		t.Errorf("panic: %+v", r)
	}
	if r := c.do(t, "admin", "GET", "/readyz", ""); r.code != 200 {
		t.Errorf("after a panic: %+v", r)
	}
}
