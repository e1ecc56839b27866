package crd

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

// hook is a server whose certificate is that of the service hook.
func hook(t *testing.T, h http.Handler) *httptest.Server {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"hook.default.svc"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// converter is a webhook that counts its calls.
func converter(t *testing.T, status int) (*httptest.Server, *atomic.Int32) {
	calls := &atomic.Int32{}
	s := hook(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		if r.URL.Path != "/convert" || r.URL.Query().Get("timeout") != "30s" || r.Host != "hook.default.svc:443" {
			t.Errorf("asked %s at %s", r.URL, r.Host)
		}
		var review apiextensionsv1.ConversionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			t.Error(err)
		}
		review.Response = &apiextensionsv1.ConversionResponse{UID: review.Request.UID}
		review.Response.Result.Status = "Success"
		for _, o := range review.Request.Objects {
			u := &unstructured.Unstructured{}
			_ = u.UnmarshalJSON(o.Raw)
			u.SetAPIVersion(review.Request.DesiredAPIVersion)
			o.Raw, o.Object = nil, u
			review.Response.ConvertedObjects = append(review.Response.ConvertedObjects, o)
		}
		review.Request = nil
		rw.WriteHeader(status)
		_ = json.NewEncoder(rw).Encode(review)
	}))
	return s, calls
}

// ask asks a webhook through its definition, as the service hook of the
// namespace default.
func ask(t *testing.T, s *httptest.Server, change func(*apiextensionsv1.CustomResourceDefinition)) (string, error) {
	t.Helper()
	def := parse(t, gadgets)
	def.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{
		Strategy: apiextensionsv1.WebhookConverter,
		Webhook: &apiextensionsv1.WebhookConversion{
			ConversionReviewVersions: []string{"v1"},
			ClientConfig: &apiextensionsv1.WebhookClientConfig{
				CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}),
				Service:  &apiextensionsv1.ServiceReference{Namespace: "default", Name: "hook", Path: new("/convert")},
			},
		},
	}
	if change != nil {
		change(def)
	}
	hooks := &Webhooks{Resolve: func(_ context.Context, namespace, name string, port int32) (string, error) {
		if namespace != "default" || name != "hook" || port != 443 {
			t.Errorf("asked for %s/%s:%d", namespace, name, port)
		}
		return s.Listener.Addr().String(), nil
	}}
	data, err := hooks.Post(def)(t.Context(), []byte(`{"kind":"ConversionReview","apiVersion":"apiextensions.k8s.io/v1","request":{"uid":"u","desiredAPIVersion":"example.com/v1","objects":[]}}`))
	return string(data), err
}

func TestWebhook(t *testing.T) {
	s, calls := converter(t, http.StatusOK)
	answer, err := ask(t, s, nil)
	if err != nil || !strings.Contains(answer, `"status":"Success"`) || calls.Load() != 1 {
		t.Errorf("answer %s, %v after %d calls", answer, err, calls.Load())
	}
	_, err = ask(t, s, func(def *apiextensionsv1.CustomResourceDefinition) {
		def.Spec.Conversion.Webhook.ClientConfig.CABundle = nil
	})
	if err == nil || !strings.Contains(err.Error(), "failed to verify certificate") || calls.Load() != 1 {
		t.Errorf("a webhook that nobody vouches for: %v", err)
	}
	_, err = ask(t, s, func(def *apiextensionsv1.CustomResourceDefinition) {
		def.Spec.Conversion.Webhook.ClientConfig.CABundle = []byte("nonsense")
	})
	if err == nil || calls.Load() != 1 {
		t.Errorf("a bundle that is none: %v", err)
	}
	s, _ = converter(t, http.StatusInternalServerError)
	if _, err = ask(t, s, nil); !apierrors.IsInternalError(err) {
		t.Errorf("status 500: %v", err)
	}
}

// TestWebhookThatFloods sends without end; the answer is cut off.
func TestWebhookThatFloods(t *testing.T) {
	s := hook(t, http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		for block := make([]byte, 1<<20); ; {
			if _, err := rw.Write(block); err != nil {
				return
			}
		}
	}))
	if _, err := ask(t, s, nil); err == nil || !strings.HasPrefix(err.Error(), "the answer is longer than") {
		t.Errorf("error %v", err)
	}
}

// TestConversionThroughAPI reads objects that were stored in another version
// through a webhook, and says so when it fails.
func TestConversionThroughAPI(t *testing.T) {
	s, calls := converter(t, http.StatusOK)
	w := open(t, t.TempDir(), &Webhooks{Resolve: func(context.Context, string, string, int32) (string, error) {
		return s.Listener.Addr().String(), nil
	}})
	def := parse(t, gadgets)
	def.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{
		Strategy: apiextensionsv1.WebhookConverter,
		Webhook: &apiextensionsv1.WebhookConversion{
			ConversionReviewVersions: []string{"v1"},
			ClientConfig: &apiextensionsv1.WebhookClientConfig{
				CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}),
				Service:  &apiextensionsv1.ServiceReference{Namespace: "default", Name: "hook", Path: new("/convert"), Port: new(int32(443))},
			},
		},
	}
	w.create(def)
	w.established("gadgets.example.com")
	v1, v2 := w.row("example.com", "v1", "gadgets"), w.row("example.com", "v2", "gadgets")
	if _, err := w.c.Create(t.Context(), v1, gadget("v1", "a"), client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	before := calls.Load()
	o, err := w.c.Get(t.Context(), v2, schema.Key{Namespace: "default", Name: "a"})
	if err != nil || o.GetObjectKind().GroupVersionKind().Version != "v2" || calls.Load() == before {
		t.Errorf("read %v, %v after %d calls", o, err, calls.Load()-before)
	}
	s.Close()
	for range 2 { // the first may still find the connection of before, and its end
		_, err = w.c.Create(t.Context(), v2, gadget("v2", "b"), client.WriteOptions{})
	}
	if err == nil ||
		!strings.Contains(err.Error(), "conversion webhook for example.com/v2, Kind=Gadget failed: Post \"https://hook.default.svc:443/convert?timeout=30s\": dial tcp") {
		t.Errorf("error %v", err)
	}
}
