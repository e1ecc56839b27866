package webhook

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve starts an HTTPS server and returns the kubeconfig that names it.
func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewTLSServer(h)
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	cfg := clientcmdapi.NewConfig()
	cfg.Clusters["hook"] = &clientcmdapi.Cluster{Server: s.URL, CertificateAuthorityData: ca}
	cfg.AuthInfos["api"] = &clientcmdapi.AuthInfo{Token: "ours"}
	cfg.Contexts["hook"] = &clientcmdapi.Context{Cluster: "hook", AuthInfo: "api"}
	cfg.CurrentContext = "hook"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*cfg, path); err != nil {
		t.Fatal(err)
	}
	return path
}

var once = &wait.Backoff{Steps: 1, Duration: time.Millisecond}

// hang never answers. The server learns that a client has gone once the body
// has been read.
func hang(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
}

func TestTokens(t *testing.T) {
	for _, tt := range []struct {
		name   string
		answer http.HandlerFunc
		user   string // "" is not known
		bad    bool   // an error
	}{
		{"known", func(w http.ResponseWriter, r *http.Request) {
			var review authenticationv1.TokenReview
			if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.Spec.Token != "t0ken" || r.Header.Get("Authorization") != "Bearer ours" {
				t.Errorf("asked %v, %v", review, err)
			}
			review.Status = authenticationv1.TokenReviewStatus{Authenticated: true, User: authenticationv1.UserInfo{Username: "jane", UID: "7", Groups: []string{"dev"}}}
			_ = json.NewEncoder(w).Encode(review)
		}, "jane", false},
		{"not known", func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","status":{"authenticated":false}}`)
		}, "", false},
		{"for others only", func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","status":{"authenticated":true,"user":{"username":"jane"},"audiences":["vault"]}}`)
		}, "", false},
		{"says why", func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","status":{"error":"expired"}}`)
		}, "", true},
		{"is broken", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }, "", true},
		{"lies about the kind", func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"apiVersion":"v1","kind":"Pod","status":{"authenticated":true}}`)
		}, "", true},
		{"is a web page", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }, "", true},
		{"hangs", hang, "", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a, err := NewTokens(TokenConfig{File: serve(t, tt.answer), Audiences: []string{"api"}, Timeout: 200 * time.Millisecond, Backoff: once})
			if err != nil {
				t.Fatal(err)
			}
			ctx := authenticator.WithAudiences(t.Context(), authenticator.Audiences{"api"})
			r, ok, err := a.AuthenticateToken(ctx, "t0ken")
			if ok != (tt.user != "") || (err != nil) != tt.bad {
				t.Fatalf("got %v, %v, %v", r, ok, err)
			}
			if ok && (r.User.GetName() != tt.user || r.Audiences[0] != "api") {
				t.Errorf("got %v", r)
			}
		})
	}
}

func decide(t *testing.T, a Authorizer, ctx context.Context, verb string) (authorizer.Decision, string, error) {
	t.Helper()
	return a.Authorize(ctx, authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "jane"}, Verb: verb, Namespace: "shop", Resource: "pods", ResourceRequest: true})
}

func TestAuthorizer(t *testing.T) {
	var asked atomic.Int64
	file := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		var review authorizationv1.SubjectAccessReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			t.Error(err)
			return
		}
		switch review.Spec.ResourceAttributes.Verb {
		case "get":
			review.Status = authorizationv1.SubjectAccessReviewStatus{Allowed: true, Reason: "may read"}
		case "delete":
			review.Status = authorizationv1.SubjectAccessReviewStatus{Denied: true, Reason: "never"}
		case "lie":
			review.Status = authorizationv1.SubjectAccessReviewStatus{Allowed: true, Denied: true}
		}
		_ = json.NewEncoder(w).Encode(review)
	})
	a, err := NewAuthorizer(AuthorizerConfig{File: file, AllowTTL: time.Hour, DenyTTL: time.Hour, Backoff: once, Timeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		for verb, want := range map[string]authorizer.Decision{"get": authorizer.DecisionAllow, "delete": authorizer.DecisionDeny, "list": authorizer.DecisionNoOpinion} {
			if d, reason, err := decide(t, a, t.Context(), verb); d != want || err != nil {
				t.Errorf("%s: %v, %q, %v", verb, d, reason, err)
			}
		}
	}
	if n := asked.Load(); n != 3 {
		t.Errorf("asked %d times for 3 questions", n)
	}
	if d, _, err := decide(t, a, t.Context(), "lie"); d == authorizer.DecisionAllow || err == nil {
		t.Errorf("allowed and denied: %v, %v", d, err)
	}
	if _, _, incomplete, _ := a.RulesFor(t.Context(), &user.DefaultInfo{}, "x"); !incomplete {
		t.Error("rules of a webhook are complete")
	}
}

func TestAuthorizerFails(t *testing.T) {
	file := serve(t, hang)
	for deny, want := range map[bool]authorizer.Decision{false: authorizer.DecisionNoOpinion, true: authorizer.DecisionDeny} {
		a, err := NewAuthorizer(AuthorizerConfig{File: file, DenyOnError: deny, Timeout: 50 * time.Millisecond, Backoff: once})
		if err != nil {
			t.Fatal(err)
		}
		if d, _, err := decide(t, a, t.Context(), "get"); d != want || err == nil {
			t.Errorf("deny %v: %v, %v", deny, d, err)
		}
	}
	// A condition that does not hold keeps it from being asked at all.
	a, err := NewAuthorizer(AuthorizerConfig{Name: "w", File: file, DenyOnError: true, Backoff: once, Conditions: []string{"request.user == 'joe'"}})
	if err != nil {
		t.Fatal(err)
	}
	if d, _, err := decide(t, a, t.Context(), "get"); d != authorizer.DecisionNoOpinion || err != nil {
		t.Errorf("%v, %v", d, err)
	}
}

func TestRefusedConfigurations(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "none")
	if err := os.WriteFile(empty, []byte("x: ["), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{empty, empty + "x"} {
		if _, err := NewTokens(TokenConfig{File: file}); err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("tokens: %v", err)
		}
		if _, err := NewAuthorizer(AuthorizerConfig{File: file}); err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("authorizer: %v", err)
		}
	}
	if _, err := NewAuthorizer(AuthorizerConfig{File: serve(t, hang), Conditions: []string{"no CEL ("}}); err == nil {
		t.Error("a wrong condition was taken")
	}
}
