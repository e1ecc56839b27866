package webhook

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	reviewv1 "k8s.io/api/admission/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/warning"

	"github.com/writ-os/writ/controlplane/admission/request"
	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/registry"
	"github.com/writ-os/writ/schema"
)

// server is a webhook that answers as told.
type server struct {
	*httptest.Server
	calls atomic.Int32
	last  atomic.Pointer[reviewv1.AdmissionRequest]
}

func serve(t *testing.T, answer func(*reviewv1.AdmissionRequest) *reviewv1.AdmissionResponse) *server {
	t.Helper()
	s := &server{}
	s.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review reviewv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			t.Errorf("review: %v", err)
			return
		}
		s.calls.Add(1)
		s.last.Store(review.Request)
		out := answer(review.Request)
		if out.UID == "" {
			out.UID = review.Request.UID
		}
		review.Request, review.Response = nil, out
		_ = json.NewEncoder(w).Encode(review)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *server) ca() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}

func allow(*reviewv1.AdmissionRequest) *reviewv1.AdmissionResponse {
	return &reviewv1.AdmissionResponse{Allowed: true}
}

func patch(ops string) func(*reviewv1.AdmissionRequest) *reviewv1.AdmissionResponse {
	return func(*reviewv1.AdmissionRequest) *reviewv1.AdmissionResponse {
		kind := reviewv1.PatchTypeJSONPatch
		return &reviewv1.AdmissionResponse{Allowed: true, Patch: []byte(ops), PatchType: &kind}
	}
}

// configure returns a mutating webhook for config maps that calls a server.
func configure(name string, s *server, change ...func(*admissionv1.MutatingWebhook)) *admissionv1.MutatingWebhookConfiguration {
	none, five := admissionv1.SideEffectClassNone, int32(5)
	w := admissionv1.MutatingWebhook{
		Name:                    name + ".example.com",
		ClientConfig:            admissionv1.WebhookClientConfig{URL: &s.URL, CABundle: s.ca()},
		Rules:                   []admissionv1.RuleWithOperations{{Operations: []admissionv1.OperationType{"*"}, Rule: admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps", "pods/exec"}}}},
		SideEffects:             &none,
		AdmissionReviewVersions: []string{"v1"},
		TimeoutSeconds:          &five,
	}
	for _, c := range change {
		c(&w)
	}
	return &admissionv1.MutatingWebhookConfiguration{
		TypeMeta:   metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1", Kind: "MutatingWebhookConfiguration"},
		ObjectMeta: metav1.ObjectMeta{Name: name}, Webhooks: []admissionv1.MutatingWebhook{w},
	}
}

// validating makes a validating configuration of a mutating one.
func validating(m *admissionv1.MutatingWebhookConfiguration) *admissionv1.ValidatingWebhookConfiguration {
	v := &admissionv1.ValidatingWebhookConfiguration{
		TypeMeta:   metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1", Kind: "ValidatingWebhookConfiguration"},
		ObjectMeta: m.ObjectMeta,
	}
	for i := range m.Webhooks {
		v.Webhooks = append(v.Webhooks, plain(&m.Webhooks[i]))
	}
	return v
}

func world(objects ...schema.Object) *client.Fake {
	ns := &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"team": "shop"}}}
	return client.NewFake(append([]schema.Object{ns}, objects...)...)
}

func write(f *client.Fake) *registry.Attributes {
	r := schema.ResourceFor[*corev1.ConfigMap]()
	return &registry.Attributes{
		User: &user.DefaultInfo{Name: "jane"}, Verb: "create", Resource: r, Request: r, Key: schema.Key{Namespace: "shop", Name: "c"},
		Object:  &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "c"}, Data: map[string]string{"a": "1"}},
		Cluster: f.Cache(), FieldManager: "test",
	}
}

func mutate(t *testing.T, a *registry.Attributes, f *client.Fake) error {
	t.Helper()
	m, _ := New(Config{Cache: f.Cache()})
	t.Cleanup(m.clients.close)
	if !m.Handles(a.Verb, a.Resource, a.Subresource) {
		t.Fatal("does not handle")
	}
	return m.Mutate(context.Background(), a)
}

func validate(t *testing.T, ctx context.Context, a *registry.Attributes, f *client.Fake) error {
	t.Helper()
	_, v := New(Config{Cache: f.Cache()})
	t.Cleanup(v.clients.close)
	return v.Validate(ctx, a)
}

func TestPatch(t *testing.T) {
	s := serve(t, patch(`[{"op":"add","path":"/data/b","value":"2"}]`))
	f := world(configure("hook", s))
	a := write(f)
	if err := mutate(t, a, f); err != nil {
		t.Fatal(err)
	}
	if got := a.Object.(*corev1.ConfigMap).Data; got["b"] != "2" || got["a"] != "1" {
		t.Errorf("data %v", got)
	}
	req := s.last.Load()
	if req.Name != "c" || req.Namespace != "shop" || req.Operation != "CREATE" || req.Kind.Kind != "ConfigMap" || req.Resource.Resource != "configmaps" ||
		req.UserInfo.Username != "jane" || req.RequestKind == nil || !strings.Contains(string(req.Object.Raw), `"kind":"ConfigMap"`) || !strings.Contains(string(req.Options.Raw), `"kind":"CreateOptions"`) {
		t.Errorf("request %+v", req)
	}
}

func TestRefusal(t *testing.T) {
	s := serve(t, func(*reviewv1.AdmissionRequest) *reviewv1.AdmissionResponse {
		return &reviewv1.AdmissionResponse{Result: &metav1.Status{Message: "no config maps today", Code: 418}}
	})
	f := world(validating(configure("hook", s)))
	err := validate(t, context.Background(), write(f), f)
	var status *apierrors.StatusError
	if !errors.As(err, &status) || status.ErrStatus.Code != 418 || err.Error() != `admission webhook "hook.example.com" denied the request: no config maps today` {
		t.Errorf("error %v", err)
	}
}

func TestWrongAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		answer func(*reviewv1.AdmissionRequest) *reviewv1.AdmissionResponse
		want   string
	}{
		"foreign uid": {func(*reviewv1.AdmissionRequest) *reviewv1.AdmissionResponse {
			return &reviewv1.AdmissionResponse{UID: "other", Allowed: true}
		}, `failed calling webhook "hook.example.com": received invalid webhook response: expected response.uid=`},
		"patch without type": {func(*reviewv1.AdmissionRequest) *reviewv1.AdmissionResponse {
			return &reviewv1.AdmissionResponse{Allowed: true, Patch: []byte("[]")}
		}, "webhook returned response.patch but not response.patchType"},
		"no patch at all": {patch(`{"op":"add"}`), "received undecodable patch in webhook response"},
		"bomb":            {patch(bomb()), "the object grows to more than"},
		"too long": {func(*reviewv1.AdmissionRequest) *reviewv1.AdmissionResponse {
			return &reviewv1.AdmissionResponse{Allowed: true, Warnings: []string{strings.Repeat("x", maxAnswer)}}
		}, "answer is larger than 8388608 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, c.answer)
			f := world(configure("hook", s))
			a := write(f)
			err := mutate(t, a, f)
			if err == nil || !strings.Contains(err.Error(), c.want) || !apierrors.IsInternalError(err) {
				t.Errorf("error %v", err)
			}
			if a.Object.(*corev1.ConfigMap).Data["a"] != "1" {
				t.Error("object has changed")
			}
		})
	}
}

// bomb doubles a field with every operation.
func bomb() string {
	ops := []string{fmt.Sprintf(`{"op":"add","path":"/l","value":["%s"]}`, strings.Repeat("x", 4096))}
	for range 20 {
		ops = append(ops, `{"op":"copy","from":"/l","path":"/l/-"}`)
	}
	return "[" + strings.Join(ops, ",") + "]"
}

func TestFailurePolicy(t *testing.T) {
	s := serve(t, allow)
	s.Close()
	ignore := admissionv1.Ignore
	f := world(configure("hook", s))
	if err := mutate(t, write(f), f); err == nil || !strings.HasPrefix(err.Error(), `Internal error occurred: failed calling webhook "hook.example.com": failed to call webhook: Post "`+s.URL) {
		t.Errorf("error %v", err)
	}
	f = world(configure("hook", s, func(w *admissionv1.MutatingWebhook) { w.FailurePolicy = &ignore }))
	if err := mutate(t, write(f), f); err != nil {
		t.Errorf("ignored: %v", err)
	}
}

// TestHangs: a webhook that never answers costs its timeout and no more, and
// one that trickles its answer the same.
func TestHangs(t *testing.T) {
	for name, handler := range map[string]http.HandlerFunc{
		"silent": func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // or the server does not see that the caller leaves
			<-r.Context().Done()
		},
		"trickles": func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			for r.Context().Err() == nil {
				if _, err := io.WriteString(w, " "); err != nil {
					return
				}
				w.(http.Flusher).Flush()
				select {
				case <-r.Context().Done():
				case <-time.After(20 * time.Millisecond):
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := &server{Server: httptest.NewTLSServer(handler)}
			f := world(configure("hook", s))
			m, _ := New(Config{Cache: f.Cache()})
			h := m.hooks.Load()[0]
			h.timeout = 150 * time.Millisecond
			a := write(f)
			r := request.New(a, nil)
			attrs, err := r.As(context.Background(), r.GetKind())
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			c, err := m.wanted(context.Background(), h, r)
			if err != nil || c == nil {
				t.Fatalf("wanted: %v %v", c, err)
			}
			_, err = m.ask(context.Background(), c, r, attrs)
			var f2 *failure
			if !errors.As(err, &f2) {
				t.Errorf("error %v", err)
			}
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("took %v", took)
			}
			m.clients.close()
			s.CloseClientConnections()
			s.Close()
		})
	}
}

func TestMatching(t *testing.T) {
	s := serve(t, allow)
	for name, c := range map[string]struct {
		change func(*admissionv1.MutatingWebhook)
		write  func(*registry.Attributes)
		want   int32
	}{
		"all":         {func(*admissionv1.MutatingWebhook) {}, nil, 1},
		"other group": {func(w *admissionv1.MutatingWebhook) { w.Rules[0].APIGroups = []string{"apps"} }, nil, 0},
		"other verb":  {func(w *admissionv1.MutatingWebhook) { w.Rules[0].Operations = []admissionv1.OperationType{"DELETE"} }, nil, 0},
		"cluster scope": {func(w *admissionv1.MutatingWebhook) {
			scope := admissionv1.ClusterScope
			w.Rules[0].Scope = &scope
		}, nil, 0},
		"namespace selector": {func(w *admissionv1.MutatingWebhook) {
			w.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "shop"}}
		}, nil, 1},
		"other namespaces": {func(w *admissionv1.MutatingWebhook) {
			w.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "other"}}
		}, nil, 0},
		"object selector": {func(w *admissionv1.MutatingWebhook) {
			w.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
		}, nil, 0},
		"condition": {func(w *admissionv1.MutatingWebhook) {
			w.MatchConditions = []admissionv1.MatchCondition{{Name: "x", Expression: "object.data.a == '1' && request.userInfo.username == 'jane'"}}
		}, nil, 1},
		"false condition": {func(w *admissionv1.MutatingWebhook) {
			w.MatchConditions = []admissionv1.MatchCondition{{Name: "x", Expression: "object.data.a == '2'"}}
		}, nil, 0},
		"subresource": {func(w *admissionv1.MutatingWebhook) {}, func(a *registry.Attributes) { a.Subresource = "status" }, 0},
		"its own configuration": {func(w *admissionv1.MutatingWebhook) {
			w.Rules[0].APIGroups, w.Rules[0].Resources = []string{"*"}, []string{"*"}
		}, func(a *registry.Attributes) {
			a.Resource = schema.ResourceFor[*admissionv1.MutatingWebhookConfiguration]()
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s.calls.Store(0)
			f := world(configure("hook", s, c.change))
			a := write(f)
			if c.write != nil {
				c.write(a)
			}
			m, _ := New(Config{Cache: f.Cache()})
			defer m.clients.close()
			if m.Handles(a.Verb, a.Resource, a.Subresource) {
				if err := m.Mutate(context.Background(), a); err != nil {
					t.Fatal(err)
				}
			}
			if n := s.calls.Load(); n != c.want {
				t.Errorf("called %d times, want %d", n, c.want)
			}
		})
	}
}

func TestReinvocation(t *testing.T) {
	first := serve(t, func(r *reviewv1.AdmissionRequest) *reviewv1.AdmissionResponse {
		if strings.Contains(string(r.Object.Raw), `"b":"2"`) {
			return patch(`[{"op":"add","path":"/data/seen","value":"yes"}]`)(r)
		}
		return allow(r)
	})
	second := serve(t, patch(`[{"op":"add","path":"/data/b","value":"2"}]`))
	ifNeeded := admissionv1.IfNeededReinvocationPolicy
	f := world(
		configure("a-first", first, func(w *admissionv1.MutatingWebhook) { w.ReinvocationPolicy = &ifNeeded }),
		configure("b-second", second),
	)
	a := write(f)
	m, _ := New(Config{Cache: f.Cache()})
	defer m.clients.close()
	ctx, pass := request.WithPass(context.Background())
	for again := true; again; again = pass.Next() {
		if err := m.Mutate(ctx, a); err != nil {
			t.Fatal(err)
		}
	}
	if got := a.Object.(*corev1.ConfigMap).Data; got["seen"] != "yes" {
		t.Errorf("data %v", got)
	}
	if n, k := first.calls.Load(), second.calls.Load(); n != 2 || k != 1 {
		t.Errorf("called %d and %d times", n, k)
	}
}

func TestDryRun(t *testing.T) {
	s := serve(t, allow)
	some := admissionv1.SideEffectClassSome
	f := world(configure("hook", s, func(w *admissionv1.MutatingWebhook) { w.SideEffects = &some }))
	a := write(f)
	a.DryRun = true
	if err := mutate(t, a, f); err == nil || err.Error() != `admission webhook "hook.example.com" does not support dry run` || s.calls.Load() != 0 {
		t.Errorf("error %v", err)
	}
}

type recorder struct{ texts []string }

func (r *recorder) AddWarning(_, text string) { r.texts = append(r.texts, text) }

func TestWarningsAndParallel(t *testing.T) {
	var both sync.WaitGroup
	both.Add(2)
	wait := func(*reviewv1.AdmissionRequest) *reviewv1.AdmissionResponse {
		both.Done()
		both.Wait() // both are asked before either answers
		return &reviewv1.AdmissionResponse{Allowed: true, Warnings: []string{"careful"}}
	}
	f := world(validating(configure("a", serve(t, wait))), validating(configure("b", serve(t, wait))))
	rec := &recorder{}
	if err := validate(t, warning.WithWarningRecorder(context.Background(), rec), write(f), f); err != nil {
		t.Fatal(err)
	}
	if len(rec.texts) != 2 || rec.texts[0] != "careful" {
		t.Errorf("warnings %q", rec.texts)
	}
}

func TestServiceReference(t *testing.T) {
	s := serve(t, allow)
	path := "check"
	f := world(configure("hook", s, func(w *admissionv1.MutatingWebhook) {
		w.ClientConfig = admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: "shop", Name: "example", Path: &path}, CABundle: s.ca()}
	}))
	m, _ := New(Config{Cache: f.Cache(), Resolve: func(_ context.Context, ns, name string, port int32) (string, error) {
		if ns != "shop" || name != "example" || port != 443 {
			t.Errorf("asked for %s/%s:%d", ns, name, port)
		}
		return s.Listener.Addr().String(), nil
	}})
	defer m.clients.close()
	err := m.Mutate(context.Background(), write(f))
	// The certificate of the test server is for another name, and must be.
	var bad x509.HostnameError
	if !errors.As(errors.Unwrap(err), &bad) && (err == nil || !strings.Contains(err.Error(), "not example.shop.svc")) {
		t.Errorf("error %v", err)
	}
}

func TestNothingConfigured(t *testing.T) {
	f := world()
	m, v := New(Config{Cache: f.Cache()})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 2)
	go func() { done <- m.Run(ctx) }()
	go func() { done <- v.Run(ctx) }()
	for !m.hooks.Empty() || !v.hooks.Empty() {
		runtime.Gosched()
	}
	r := schema.ResourceFor[*corev1.ConfigMap]()
	if m.Handles("create", r, "") || v.Handles("create", r, "") {
		t.Error("handles writes although nothing is configured")
	}
	if n := testing.AllocsPerRun(100, func() { m.Handles("create", r, "") }); n > 0 {
		t.Errorf("%v allocations", n)
	}
	cancel()
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// FuzzAnswer: whatever a webhook answers, it is a valid answer or an error.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"u","allowed":true,"patchType":"JSONPatch","patch":"W10="}}`), true)
	f.Add([]byte(`{"response":null}`), false)
	f.Add([]byte(`{"response":{"patch":"W3sib3AiOiJjb3B5In1d","patchType":""}}`), true)
	f.Fuzz(func(t *testing.T, data []byte, mutating bool) {
		for _, version := range []string{"v1", "v1beta1"} {
			a, err := decode(data, version, types.UID("u"), mutating)
			if err == nil && a == nil {
				t.Fatal("neither answer nor error")
			}
			if err == nil && !mutating && len(a.patch) > 0 {
				t.Fatal("patch of a validating webhook")
			}
		}
	})
}

// FuzzPatch: whatever a patch says, there is an object or an error.
func FuzzPatch(f *testing.F) {
	f.Add([]byte(`[{"op":"add","path":"/data/b","value":"2"}]`))
	f.Add([]byte(`[{"op":"copy","from":"/data","path":"/data/a"}]`))
	f.Add([]byte(`[{"op":"remove","path":"/metadata/ownerReferences/-1"}]`))
	f.Add([]byte(`[{"op":"replace","path":"","value":null}]`))
	a := write(world())
	attrs, err := request.New(a, nil).As(context.Background(), schema.ResourceFor[*corev1.ConfigMap]().GVK())
	if err != nil {
		f.Fatal(err)
	}
	c := &call{hook: &hook{}}
	f.Fuzz(func(t *testing.T, ops []byte) {
		o, err := patched(c, attrs, ops)
		if err == nil && o != nil && o.GetObjectKind().GroupVersionKind().Kind != "ConfigMap" {
			t.Fatalf("kind %v", o.GetObjectKind())
		}
	})
}
