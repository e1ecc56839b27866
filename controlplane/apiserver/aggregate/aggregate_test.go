package aggregate

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/utils/ptr"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

var flunders = kschema.GroupVersion{Group: "wardle.example.com", Version: "v1alpha1"}

const list = `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"wardle.example.com/v1alpha1","resources":[
 {"name":"flunders","singularName":"flunder","namespaced":true,"kind":"Flunder","verbs":["create","get","list","watch"],"shortNames":["fl"]},
 {"name":"flunders/status","singularName":"","namespaced":true,"kind":"Flunder","verbs":["get","patch"]}]}`

func apiService(ca []byte) *apiregistrationv1.APIService {
	return &apiregistrationv1.APIService{
		TypeMeta:   metav1.TypeMeta{Kind: "APIService", APIVersion: "apiregistration.k8s.io/v1"},
		ObjectMeta: metav1.ObjectMeta{Name: "v1alpha1.wardle.example.com"},
		Spec: apiregistrationv1.APIServiceSpec{Group: flunders.Group, Version: flunders.Version, GroupPriorityMinimum: 2000, VersionPriority: 200, CABundle: ca,
			Service: &apiregistrationv1.ServiceReference{Namespace: "wardle", Name: "api", Port: ptr.To[int32](443)}},
	}
}

func service() *corev1.Service {
	return &corev1.Service{TypeMeta: metav1.TypeMeta{Kind: "Service", APIVersion: "v1"}, ObjectMeta: metav1.ObjectMeta{Namespace: "wardle", Name: "api"},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, Ports: []corev1.ServicePort{{Name: "https", Port: 443}}}}
}

func slice(ready bool) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{TypeMeta: metav1.TypeMeta{Kind: "EndpointSlice", APIVersion: "discovery.k8s.io/v1"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "wardle", Name: "api-1", Labels: map[string]string{discoveryv1.LabelServiceName: "api"}}, AddressType: discoveryv1.AddressTypeIPv4,
		Ports:     []discoveryv1.EndpointPort{{Name: ptr.To("https"), Port: ptr.To[int32](8443)}},
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.244.0.9"}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(ready)}}}}
}

// other starts another API server and returns an aggregator that has looked at
// it once.
func other(t *testing.T, h http.HandlerFunc) *Aggregator {
	t.Helper()
	srv := httptest.NewUnstartedServer(h)
	srv.EnableHTTP2 = true
	srv.TLS = &tls.Config{MinVersion: tls.VersionTLS12, ClientAuth: tls.RequestClientCert}
	srv.StartTLS()
	t.Cleanup(srv.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})
	c := client.NewFake(apiService(ca), service(), slice(true))
	a := New(Config{Client: c, Cache: c.Cache(), Catalog: &schema.Live{},
		Certificate: func() (*tls.Certificate, error) { return &srv.TLS.Certificates[0], nil },
		Resolve:     func(string, string, int32) (string, error) { return srv.Listener.Addr().String(), nil }})
	// The test server's certificate is for example.com.
	spec := apiService(ca).Spec
	tr, err := a.transportFor(&spec)
	if err != nil {
		t.Fatal(err)
	}
	if tr.TLSClientConfig.ServerName != "api.wardle.svc" {
		t.Errorf("server name %q", tr.TLSClientConfig.ServerName)
	}
	tr.TLSClientConfig.ServerName = "example.com"
	t.Cleanup(tr.CloseIdleConnections)
	a.targets = map[kschema.GroupVersion]*target{flunders: {spec: spec, transport: tr}}
	a.check(t.Context())
	return a
}

func condition(t *testing.T, a *Aggregator) string {
	t.Helper()
	o, _ := a.cfg.Cache.Get(services(), schema.Key{Name: "v1alpha1.wardle.example.com"})
	s := o.(*apiregistrationv1.APIService)
	if len(s.Status.Conditions) != 1 {
		t.Fatalf("conditions %+v", s.Status.Conditions)
	}
	c := s.Status.Conditions[0]
	return fmt.Sprintf("%s %s %s", c.Status, c.Reason, c.Message)
}

func get(t *testing.T, a *Aggregator, path string) *httptest.ResponseRecorder {
	t.Helper()
	u := &user.DefaultInfo{Name: "alice", UID: "7", Groups: []string{"devs", "ops"}, Extra: map[string][]string{"Scope/x": {"y"}}}
	r := httptest.NewRequestWithContext(request.WithUser(t.Context(), u), "GET", path, nil)
	r.Header.Set("Authorization", "Bearer secret")
	r.Header.Set("X-Remote-User", "system:admin") // a forged one
	r.Header.Set("X-Remote-Group", "system:masters")
	w := httptest.NewRecorder()
	a.Serve(w, r, flunders)
	return w
}

func TestServe(t *testing.T) {
	var seen *http.Request
	a := other(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/apis/wardle.example.com/v1alpha1" {
			_, _ = io.WriteString(w, list)
			return
		}
		seen = r.Clone(context.WithoutCancel(r.Context()))
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(w, "flunder")
	})
	if got := condition(t, a); got != "True Passed all checks passed" {
		t.Fatal(got)
	}
	w := get(t, a, "/apis/wardle.example.com/v1alpha1/namespaces/x/flunders?watch=1")
	if w.Code != http.StatusTeapot || w.Body.String() != "flunder" {
		t.Fatalf("answer %d %q", w.Code, w.Body)
	}
	h := seen.Header
	if h.Get("Authorization") != "" || !slices.Equal(h["X-Remote-User"], []string{"alice"}) || !slices.Equal(h["X-Remote-Group"], []string{"devs", "ops"}) ||
		h.Get("X-Remote-Uid") != "7" || h.Get("X-Remote-Extra-Scope%2fx") != "y" {
		t.Errorf("headers %v", h)
	}
	if len(seen.TLS.PeerCertificates) != 1 || seen.URL.RawQuery != "watch=1" {
		t.Errorf("certificates %d, query %q", len(seen.TLS.PeerCertificates), seen.URL.RawQuery)
	}
	all, _ := a.Versions()
	d := all[0].Discovery
	if len(all) != 1 || all[0].GroupPriority != 2000 || len(d.Resources) != 1 || d.Resources[0].ResponseKind.Kind != "Flunder" || d.Resources[0].Subresources[0].Subresource != "status" {
		t.Errorf("discovery %+v", all)
	}
}

func TestServerThatLies(t *testing.T) {
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"status":   {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }, "bad status from /apis/wardle.example.com/v1alpha1: 403"},
		"redirect": {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) }, "bad status"},
		"no json":  {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") }, "invalid character"},
		"kind":     {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"kind":"Pod"}`) }, `no APIResourceList but "Pod"`},
		"aborts":   {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "failing or missing response"},
	} {
		t.Run(name, func(t *testing.T) {
			a := other(t, c.answer)
			if got := condition(t, a); !strings.HasPrefix(got, "False FailedDiscoveryCheck ") || !strings.Contains(got, c.want) {
				t.Error(got)
			}
			if w := get(t, a, "/apis/wardle.example.com/v1alpha1/x"); w.Code != 503 || w.Body.String() != "service unavailable\n" {
				t.Errorf("answer %d %q", w.Code, w.Body)
			}
			if all, _ := a.Versions(); len(all) != 0 {
				t.Errorf("discovery shows %+v", all)
			}
		})
	}
}

// A server that was there stays in discovery, marked stale.
func TestServerThatGoes(t *testing.T) {
	up := true
	a := other(t, func(w http.ResponseWriter, _ *http.Request) {
		if !up {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		_, _ = io.WriteString(w, list)
	})
	_, changed := a.Versions()
	up = false
	a.check(t.Context())
	select {
	case <-changed:
	default:
		t.Error("nobody was woken")
	}
	all, _ := a.Versions()
	if len(all) != 1 || all[0].Discovery.Freshness != apidiscoveryv2.DiscoveryFreshnessStale {
		t.Errorf("discovery %+v", all)
	}
}

func TestJudge(t *testing.T) {
	headless, wrongPort, node := service(), service(), service()
	wrongPort.Spec.Ports[0].Port = 80
	node.Spec.Type = corev1.ServiceTypeNodePort
	local := apiService(nil)
	local.Spec.Service = nil
	for _, c := range []struct {
		name    string
		s       *apiregistrationv1.APIService
		objects []schema.Object
		want    string
	}{
		{"local", local, nil, "Local"},
		{"no service", apiService(nil), nil, "ServiceNotFound"},
		{"port", apiService(nil), []schema.Object{wrongPort}, "ServicePortError"},
		{"no slices", apiService(nil), []schema.Object{headless}, "EndpointsNotFound"},
		{"not ready", apiService(nil), []schema.Object{service(), slice(false)}, "MissingEndpoints"},
		{"ready", apiService(nil), []schema.Object{service(), slice(true)}, ""},
		{"node port", apiService(nil), []schema.Object{node}, ""},
	} {
		got := ""
		if v := judge(c.s, client.NewFake(c.objects...).Cache()); v != nil {
			got = v.reason
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestPlan(t *testing.T) {
	prio := func(kschema.GroupVersion) (int32, int32) { return 17000, 15 }
	first := plan(schema.Builtin, nil, nil, prio)
	var have []*apiregistrationv1.APIService
	for _, s := range first {
		if s.verb != "create" || s.object.Labels[managedLabel] != onStart {
			t.Fatalf("first step %+v", s)
		}
		have = append(have, s.object)
	}
	if !slices.ContainsFunc(have, func(s *apiregistrationv1.APIService) bool { return s.Name == "v1.apps" }) {
		t.Error("no v1.apps")
	}
	if again := plan(schema.Builtin, nil, have, prio); len(again) != 0 {
		t.Errorf("a second plan has steps: %+v", again)
	}
	gone := &apiregistrationv1.APIService{ObjectMeta: metav1.ObjectMeta{Name: "v1.gone.example.com", Labels: map[string]string{managedLabel: always}}}
	users := apiService(nil)
	steps := plan(schema.Builtin, nil, append(have, gone, users), prio)
	if len(steps) != 1 || steps[0].verb != "delete" || steps[0].object != gone {
		t.Errorf("steps %+v", steps)
	}
	moved := have[0].DeepCopy()
	moved.Spec.Service = users.Spec.Service // somebody moves a built-in group: theirs
	if steps := plan(schema.Builtin, nil, append([]*apiregistrationv1.APIService{moved}, have[1:]...), prio); len(steps) != 0 {
		t.Errorf("steps %+v", steps)
	}
}

func TestInProcess(t *testing.T) {
	part := InProcess{GroupPriority: 100, VersionPriority: 100, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "figures") }),
		Resources: &metav1.APIResourceList{GroupVersion: flunders.String(), APIResources: []metav1.APIResource{{Name: "flunders", Kind: "Flunder", Namespaced: true}}}}
	c := client.NewFake()
	a := New(Config{Client: c, Cache: c.Cache(), Catalog: &schema.Live{}, InProcess: []InProcess{part}})
	if !a.Owns(flunders) || a.Owns(kschema.GroupVersion{Group: "x", Version: "v1"}) {
		t.Error("wrong owner")
	}
	if w := get(t, a, "/apis/wardle.example.com/v1alpha1/flunders"); w.Body.String() != "figures" {
		t.Errorf("answer %d %q", w.Code, w.Body)
	}
	if all, _ := a.Versions(); len(all) != 1 || all[0].Discovery.Resources[0].ResponseKind.Group != flunders.Group {
		t.Errorf("discovery %+v", all)
	}
	steps := plan(schema.Builtin, a.cfg.InProcess, nil, func(kschema.GroupVersion) (int32, int32) { return 1, 1 })
	if last := steps[len(steps)-1].object; last.Name != "v1alpha1.wardle.example.com" || last.Spec.GroupPriorityMinimum != 100 || last.Spec.Service != nil {
		t.Errorf("last step %+v", last)
	}
	// An APIService that names a Service takes it away.
	a.targets[flunders] = &target{spec: apiService(nil).Spec}
	if w := get(t, a, "/apis/wardle.example.com/v1alpha1/flunders"); w.Code != http.StatusServiceUnavailable {
		t.Errorf("answer %d", w.Code)
	}
}

func TestRun(t *testing.T) {
	c := client.NewFake()
	a := New(Config{Client: c, Cache: c.Cache(), Catalog: &schema.Live{}, CheckEvery: time.Hour,
		Priority: func(kschema.GroupVersion) (int32, int32) { return 17000, 15 },
		Resolve:  func(string, string, int32) (string, error) { return "", io.EOF }})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	done := make(chan error, 1)
	available := make(chan struct{})
	if err := c.Cache().Subscribe(ctx, services(), func(e client.Event) {
		if s := e.Object.(*apiregistrationv1.APIService); s.Name == "v1." && len(s.Status.Conditions) == 1 && s.Status.Conditions[0].Reason == "Local" {
			close(available)
		}
	}); err != nil {
		t.Fatal(err)
	}
	go func() { done <- a.Run(ctx) }()
	select {
	case <-available:
	case <-ctx.Done():
		t.Fatal("v1. never became available")
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
