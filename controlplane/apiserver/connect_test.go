package apiserver_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	discoveryv2 "k8s.io/api/apidiscovery/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/writ-os/writ/controlplane/apiserver"
	"github.com/writ-os/writ/schema"
)

// gate is admission that keeps connections shut, and what it was asked.
type gate struct {
	apiserver.Registry
	asked []string
}

func (g *gate) AdmitConnect(_ context.Context, r *schema.Resource, key schema.Key, sub string, options runtime.Object) error {
	g.asked = append(g.asked, fmt.Sprintf("%s %s %s %T", r.Plural, key.Name, sub, options))
	return apierrors.NewForbidden(r.GroupResource(), key.Name, fmt.Errorf("the gate is shut"))
}

// TestAdmitConnect: admission is asked before anything reaches a node, and says
// no in words, not in a broken connection.
func TestAdmitConnect(t *testing.T) {
	g := &gate{}
	c := newNodeCluster(t, func(cfg *apiserver.Config) { g.Registry, cfg.Registry = cfg.Registry, g })
	const pod = "/api/v1/namespaces/default/pods/p"
	var want []string
	for _, tt := range []struct{ method, path, asked string }{
		{"POST", pod + "/exec?command=ls&stdout=true", "pods p exec *v1.PodExecOptions"},
		{"GET", pod + "/exec?command=ls&stdout=true", "pods p exec *v1.PodExecOptions"},
		{"POST", pod + "/attach?stdout=true", "pods p attach *v1.PodAttachOptions"},
		{"POST", pod + "/portforward", "pods p portforward *v1.PodPortForwardOptions"},
		{"GET", pod + "/proxy/x", "pods p proxy *v1.PodProxyOptions"},
		{"PUT", "/api/v1/nodes/n1/proxy/x", "nodes n1 proxy *v1.NodeProxyOptions"},
		{"DELETE", "/api/v1/namespaces/default/services/s/proxy/x", "services s proxy *v1.ServiceProxyOptions"},
	} {
		r := c.serve("admin", tt.method, tt.path, "", "Connection: Upgrade", "Upgrade: SPDY/3.1")
		if r.Code != http.StatusForbidden || !strings.Contains(r.Body.String(), "the gate is shut") {
			t.Errorf("%s %s: %d %s", tt.method, tt.path, r.Code, r.Body)
		}
		want = append(want, tt.asked)
	}
	if !slices.Equal(g.asked, want) {
		t.Errorf("asked %q, want %q", g.asked, want)
	}
}

// TestProxyRewrites: links and redirects of what is behind a proxy lead through
// the proxy.
func TestProxyRewrites(t *testing.T) {
	c := newNodeCluster(t)
	const base = "/api/v1/nodes/n1/proxy"
	if r := c.serve("admin", "GET", base+"/page", ""); r.Code != 200 || r.Body.String() != `<a href="`+base+`/other">x</a>` {
		t.Errorf("page: %d %s", r.Code, r.Body)
	}
	if r := c.serve("admin", "GET", base+"/moved", ""); r.Code != 302 || r.Header().Get("Location") != base+"/there" {
		t.Errorf("redirect: %d %q", r.Code, r.Header())
	}
	if r := c.serve("admin", "GET", base, ""); r.Code != 301 || r.Header().Get("Location") != base+"/" {
		t.Errorf("without a slash: %d %q", r.Code, r.Header())
	}
	if r := c.serve("reader", "GET", base+"/page", ""); r.Code != 403 {
		t.Errorf("without permission: %d", r.Code)
	}
}

// reachable is an address of this machine that a pod might have.
func reachable(t *testing.T) string {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() && n.IP.To4() != nil {
			return n.IP.String()
		}
	}
	t.Skip("this machine has no address but its own")
	return ""
}

// TestProxyPodsAndServices goes to a pod by itself, by port and by a service.
func TestProxyPodsAndServices(t *testing.T) {
	ip := reachable(t)
	l, err := net.Listen("tcp", net.JoinHostPort(ip, "0"))
	if err != nil {
		t.Skip(err)
	}
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %s?%s %q", r.Method, r.URL.Path, r.URL.RawQuery, r.Header.Get("Authorization"))
	}))
	srv.Listener.Close()
	srv.Listener = l
	srv.Start()
	t.Cleanup(srv.Close)
	port := l.Addr().(*net.TCPAddr).Port

	c := newCluster(t)
	cs, ctx := c.clientset(t, "admin").CoreV1(), t.Context()
	p := pod("web")
	p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: int32(port)}}
	made, err := cs.Pods("default").Create(ctx, p, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	made.Status.PodIP, made.Status.PodIPs = ip, []corev1.PodIP{{IP: ip}}
	if _, err := cs.Pods("default").UpdateStatus(ctx, made, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := cs.Services("default").Create(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: corev1.ServiceSpec{ClusterIP: "None", Ports: []corev1.ServicePort{{Name: "http", Port: 80}}}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := cs.Endpoints("default").Create(ctx, &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Subsets: []corev1.EndpointSubset{{
		Addresses: []corev1.EndpointAddress{{IP: ip, TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: "default", Name: "web"}}},
		Ports:     []corev1.EndpointPort{{Name: "http", Port: int32(port)}},
	}}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	const ns = "/api/v1/namespaces/default/"
	for _, tt := range []struct{ method, path, want string }{
		{"GET", ns + "pods/web/proxy/a/b?c=d", `GET /a/b?c=d ""`},
		{"POST", ns + "pods/web:" + strconv.Itoa(port) + "/proxy/", `POST /? ""`},
		{"GET", ns + "services/web:http/proxy/x/", `GET /x/? ""`},
		{"PATCH", ns + "services/http:web:80/proxy/y", `PATCH /y? ""`},
	} {
		if r := c.serve("admin", tt.method, tt.path, ""); r.Code != 200 || r.Body.String() != tt.want {
			t.Errorf("%s: %d %s, want %s", tt.path, r.Code, r.Body, tt.want)
		}
	}
	for path, want := range map[string]int{
		ns + "services/web:81/proxy/": 503, ns + "services/none/proxy/": 404, ns + "services/web:other/proxy/": 503, ns + "pods/a:b:c:d/proxy/": 400,
	} {
		if r := c.serve("admin", "GET", path, ""); r.Code != want {
			t.Errorf("%s: %d %s, want %d", path, r.Code, r.Body, want)
		}
	}
}

func TestComponentStatuses(t *testing.T) {
	c := newCluster(t)
	l, err := c.clientset(t, "admin").CoreV1().ComponentStatuses().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(l.Items) != 3 || l.Items[0].Conditions[0].Status != corev1.ConditionTrue {
		t.Fatalf("%+v %v", l, err)
	}
	const path = "/api/v1/componentstatuses"
	for _, tt := range []struct {
		method, path string
		code         int
		want         string
	}{
		{"GET", path + "/scheduler", 200, `"kind":"ComponentStatus"`},
		{"GET", path + "/nothing", 404, `componentstatuses \"nothing\" not found`},
		{"POST", path, 405, ""},
		{"DELETE", path + "/scheduler", 405, ""},
	} {
		if r := c.serve("admin", tt.method, tt.path, "{}"); r.Code != tt.code || !strings.Contains(r.Body.String(), tt.want) {
			t.Errorf("%s %s: %d %s", tt.method, tt.path, r.Code, r.Body)
		}
	}
	if r := c.serve("alice", "GET", path, ""); r.Code != 403 {
		t.Errorf("without permission: %d", r.Code)
	}
}

// others is one other server, with one version.
type others struct{ gv kschema.GroupVersion }

func (o others) Owns(gv kschema.GroupVersion) bool { return gv == o.gv }

func (o others) Serve(w http.ResponseWriter, r *http.Request, gv kschema.GroupVersion) {
	u, _ := request.UserFrom(r.Context())
	fmt.Fprintf(w, "%s %s for %s", gv, r.URL.Path, u.GetName())
}

func (o others) Versions() ([]apiserver.AggregatedVersion, <-chan struct{}) {
	return []apiserver.AggregatedVersion{{
		Group: o.gv.Group, GroupPriority: 17950, VersionPriority: 5, OpenAPIHash: "ABC",
		Discovery: discoveryv2.APIVersionDiscovery{Version: o.gv.Version, Freshness: discoveryv2.DiscoveryFreshnessCurrent, Resources: []discoveryv2.APIResourceDiscovery{{
			Resource: "things", Scope: discoveryv2.ScopeCluster, Verbs: []string{"get", "list"}, ResponseKind: &metav1.GroupVersionKind{Group: o.gv.Group, Version: o.gv.Version, Kind: "Thing"},
		}}},
	}}, nil
}

// TestAggregated: other servers stand in discovery where their priority says,
// and are asked for what is theirs, once the client was found allowed to.
func TestAggregated(t *testing.T) {
	gv := kschema.GroupVersion{Group: "things.example.com", Version: "v1"}
	c := newCluster(t, func(cfg *apiserver.Config) { cfg.Aggregate = others{gv} })
	groups, lists, err := c.clientset(t, "admin").Discovery().ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	// After core, before apiregistration.k8s.io.
	if groups[0].Name != "" || groups[1].Name != gv.Group || groups[2].Name != "apiregistration.k8s.io" {
		t.Errorf("order: %s, %s, %s", groups[0].Name, groups[1].Name, groups[2].Name)
	}
	if !slices.ContainsFunc(lists, func(l *metav1.APIResourceList) bool {
		return l.GroupVersion == gv.String() && len(l.APIResources) == 1 && l.APIResources[0].Kind == "Thing"
	}) {
		t.Error("its resources are missing")
	}
	if r := c.serve("admin", "GET", "/apis", ""); !strings.Contains(r.Body.String(), `{"groupVersion":"things.example.com/v1","version":"v1"}`) {
		t.Errorf("/apis: %s", r.Body)
	}
	if r := c.serve("admin", "GET", "/openapi/v3", ""); !strings.Contains(r.Body.String(), "apis/things.example.com/v1?hash=ABC") {
		t.Errorf("/openapi/v3: %s", r.Body)
	}
	for path, want := range map[string]string{
		"/apis/things.example.com/v1/things/a":         "things.example.com/v1 /apis/things.example.com/v1/things/a for admin",
		"/apis/things.example.com/v1":                  "things.example.com/v1 /apis/things.example.com/v1 for admin",
		"/openapi/v3/apis/things.example.com/v1":       "things.example.com/v1 /openapi/v3/apis/things.example.com/v1 for admin",
		"/apis/things.example.com/v1/watch/things?a=b": "things.example.com/v1 /apis/things.example.com/v1/watch/things for admin",
	} {
		if r := c.serve("admin", "GET", path, ""); r.Body.String() != want {
			t.Errorf("%s: %s, want %s", path, r.Body, want)
		}
	}
	if r := c.serve("alice", "GET", "/apis/things.example.com/v1/things", ""); r.Code != 403 {
		t.Errorf("without permission: %d", r.Code)
	}
	if r := c.serve("admin", "GET", "/apis/things.example.com/v2/things", ""); r.Code != 404 {
		t.Errorf("a version that nobody has: %d", r.Code)
	}
}
