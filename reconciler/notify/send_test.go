package notify

import (
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema/v1alpha1"
)

func TestJudge(t *testing.T) {
	now := epoch
	in := func(d time.Duration) string { return fmt.Sprint(now.Add(d).Unix()) }
	for name, c := range map[string]struct {
		status  int
		header  map[string]string
		body    string
		arrived bool
		refused bool
		wait    time.Duration
	}{
		"ok":                      {status: 200, arrived: true},
		"created":                 {status: 201, arrived: true},
		"no content":              {status: 204, arrived: true},
		"the last of the quota":   {status: 201, arrived: true, header: map[string]string{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": in(90 * time.Second)}, wait: 90 * time.Second},
		"github, limited":         {status: 403, header: map[string]string{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": in(time.Minute)}, wait: time.Minute},
		"github, second limit":    {status: 403, body: "You have exceeded a secondary rate limit"},
		"github, asks to wait":    {status: 403, header: map[string]string{"Retry-After": "7"}, wait: 7 * time.Second},
		"gitlab, limited":         {status: 429, header: map[string]string{"RateLimit-Remaining": "0", "RateLimit-Reset": in(time.Minute), "Retry-After": "61"}, wait: 61 * time.Second},
		"gitlab, known":           {status: 400, body: `{"message":"Cannot transition status via :enqueue from :pending"}`, arrived: true},
		"discord":                 {status: 429, header: map[string]string{"Retry-After": "1.5"}, wait: 1500 * time.Millisecond},
		"date":                    {status: 503, header: map[string]string{"Retry-After": now.Add(30 * time.Second).Format(http.TimeFormat)}, wait: 30 * time.Second},
		"date that has been":      {status: 503, header: map[string]string{"Retry-After": now.Add(-30 * time.Second).Format(http.TimeFormat)}},
		"a day":                   {status: 429, header: map[string]string{"Retry-After": "86400"}, wait: maxWait},
		"not a time":              {status: 429, header: map[string]string{"Retry-After": "-1"}},
		"endless":                 {status: 429, header: map[string]string{"Retry-After": "1e300"}, wait: maxWait},
		"down":                    {status: 502},
		"forbidden":               {status: 403, refused: true},
		"unknown":                 {status: 404, refused: true},
		"unknown commit":          {status: 422, body: "No commit found for SHA", refused: true},
		"bad":                     {status: 400, refused: true},
		"elsewhere":               {status: 302, refused: true},
		"reset that is no number": {status: 403, header: map[string]string{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "soon"}},
	} {
		h := http.Header{}
		for k, v := range c.header {
			h.Set(k, v)
		}
		got := judge(c.status, h, c.body, now)
		if (got.err == nil) != c.arrived || got.refused != c.refused || got.wait != c.wait {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := judge(500, http.Header{}, strings.Repeat("ä\n", 5000), now); len(got.err.Error()) > maxShown+50 || strings.Contains(got.err.Error(), "\n") {
		t.Errorf("a long answer: %v", got.err)
	}
}

func FuzzRetryAfter(f *testing.F) {
	for _, s := range []string{"1", "1.5", "NaN", "Inf", "-1", "Fri, 01 May 2026 12:00:30 GMT"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		h := http.Header{"Retry-After": {s}, "X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {s}}
		if got := judge(429, h, "", epoch); got.wait < 0 || got.wait > maxWait {
			t.Errorf("%q: %v", s, got.wait)
		}
	})
}

func secret(namespace, name string, data map[string]string) *corev1.Secret {
	s := &corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string][]byte{}}
	for k, v := range data {
		s.Data[k] = []byte(v)
	}
	return s
}

func TestReadTarget(t *testing.T) {
	c := client.NewFake(secret("flux", "chat", map[string]string{"token": "t0ken\n", "address": "https://hooks.example.org/s3cret"}), secret("default", "bare", nil),
		secret("default", "two", map[string]string{"token": "a\nb"}), secret("default", "ftp", map[string]string{"address": "ftp://x/s3cret"}))
	for name, tc := range map[string]struct {
		n   v1alpha1.Notification
		url string
		err string
	}{
		"url":                   {v1alpha1.Notification{URL: "https://a.example.org/x"}, "https://a.example.org/x", ""},
		"address of the secret": {v1alpha1.Notification{URL: "https://a.example.org/x", Secret: "flux/chat"}, "https://hooks.example.org/s3cret", ""},
		"forge":                 {v1alpha1.Notification{Type: "github", Secret: "default/bare"}, "https://git.example.org/a/b", ""},
		"chat without url":      {v1alpha1.Notification{Type: "slack"}, "", "there is no URL"},
		"no namespace":          {v1alpha1.Notification{URL: "https://a.example.org", Secret: "chat"}, "", "is not namespace/name"},
		"other namespace":       {v1alpha1.Notification{URL: "https://a.example.org", Secret: "default/chat"}, "", "not found"},
		"path":                  {v1alpha1.Notification{URL: "https://a.example.org", Secret: "flux/../chat"}, "", "is not namespace/name"},
		"lines":                 {v1alpha1.Notification{URL: "https://a.example.org", Secret: "default/two"}, "", "several lines"},
		"file":                  {v1alpha1.Notification{URL: "file:///etc/passwd"}, "", "only https and http"},
		"gopher":                {v1alpha1.Notification{URL: "gopher://127.0.0.1:6379/_x"}, "", "only https and http"},
		"secret scheme":         {v1alpha1.Notification{Secret: "default/ftp"}, "", "only https and http"},
		"password":              {v1alpha1.Notification{URL: "https://ann:s3cret@a.example.org"}, "", "password"},
		"no host":               {v1alpha1.Notification{URL: "https:///x"}, "", "no host"},
		"not a url":             {v1alpha1.Notification{URL: "https://a b/s3cret\x00"}, "", "cannot be read"},
	} {
		got, err := readTarget(t.Context(), c, &tc.n, "https://git.example.org/a/b")
		if tc.err == "" && (err != nil || got.url != tc.url) || tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
			t.Errorf("%s: %+v, %v", name, got.url, err)
		}
		if err != nil && strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s tells the secret: %v", name, err)
		}
		if strings.HasSuffix(got.token, "\n") {
			t.Errorf("%s: token %q", name, got.token)
		}
	}
}

// What a receiver says, and what fails on the way, does not bring a secret to
// light.
func TestSendConceals(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		http.Error(w, "no hook "+req.URL.RequestURI()+" for "+req.Header.Get("Authorization"), http.StatusForbidden)
	}))
	url := srv.URL + "/services/T000/B000/XXXXsecret?token=alsosecret"
	tg := target{url: url, token: "t0ken"}
	s := &sender{}
	t.Cleanup(s.close)
	c := call{url: url, header: http.Header{"Authorization": {"Bearer t0ken"}}}
	got := s.send(t.Context(), c, tg)
	srv.Close()
	down := s.send(t.Context(), c, tg)
	if !got.refused || down.refused || down.err == nil {
		t.Errorf("%+v; %+v", got, down)
	}
	for _, err := range []error{got.err, down.err} {
		for _, w := range []string{"XXXXsecret", "alsosecret", "t0ken"} {
			if strings.Contains(err.Error(), w) {
				t.Errorf("%q is in: %v", w, err)
			}
		}
		if !strings.Contains(err.Error(), strings.TrimPrefix(srv.URL, "http://")) {
			t.Errorf("the host is not in: %v", err)
		}
	}
}

// A token goes to no other host; a repository that has moved on its host is
// followed.
func TestRedirect(t *testing.T) {
	var elsewhere int
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere++ }))
	defer other.Close()
	var got string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		switch req.URL.Path {
		case "/other":
			http.Redirect(w, req, other.URL, http.StatusTemporaryRedirect)
		case "/get":
			http.Redirect(w, req, "/new", http.StatusFound) // would become a GET
		case "/old":
			http.Redirect(w, req, "/new", http.StatusPermanentRedirect)
		case "/loop":
			http.Redirect(w, req, "/loop", http.StatusTemporaryRedirect)
		default:
			b, _ := io.ReadAll(req.Body)
			got = req.Method + " " + string(b)
		}
	}))
	defer srv.Close()
	s := &sender{}
	defer s.close()
	for path, ok := range map[string]bool{"/other": false, "/get": false, "/loop": false, "/old": true} {
		out := s.send(t.Context(), call{url: srv.URL + path, body: []byte("hello")}, target{})
		if (out.err == nil) != ok || !ok && !out.refused {
			t.Errorf("%s: %+v", path, out)
		}
	}
	if elsewhere > 0 || got != "POST hello" {
		t.Errorf("elsewhere %d times; new place got %q", elsewhere, got)
	}
}

func TestAllowed(t *testing.T) {
	for address, ok := range map[string]bool{"10.0.0.1:80": true, "127.0.0.1:80": true, "[2001:db8::1]:443": true, "169.254.169.254:80": false, "[fe80::1]:80": false,
		"[::ffff:169.254.169.254]:80": false, "224.0.0.1:80": false, "0.0.0.0:80": false, "[::]:80": false, "x": false} {
		if err := allowed("tcp", address, nil); (err == nil) != ok {
			t.Errorf("%s: %v", address, err)
		}
	}
	s := &sender{}
	defer s.close()
	if out := s.send(t.Context(), call{url: "http://169.254.169.254/latest/meta-data"}, target{}); out.err == nil || !strings.Contains(out.err.Error(), "is not called") {
		t.Errorf("metadata: %+v", out)
	}
}

func TestOwnAuthority(t *testing.T) {
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.StartTLS()
	defer srv.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})
	s := &sender{}
	defer s.close()
	if out := s.send(t.Context(), call{url: srv.URL}, target{}); out.err == nil {
		t.Error("a certificate of nobody is trusted")
	}
	if out := s.send(t.Context(), call{url: srv.URL}, target{ca: ca}); out.err != nil {
		t.Errorf("with the authority: %v", out.err)
	}
	if out := s.send(t.Context(), call{url: srv.URL}, target{ca: []byte("x")}); out.err == nil || !out.refused {
		t.Errorf("an authority that is none: %+v", out)
	}
}

// An answer without end costs no more than its bound, and one that does not
// come is given up with the context.
func TestSendBounded(t *testing.T) {
	var written int
	hung := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/hang" {
			close(hung)
			_, _ = io.Copy(io.Discard, req.Body)
			<-req.Context().Done()
			return
		}
		w.WriteHeader(http.StatusInternalServerError)
		for {
			n, err := w.Write(make([]byte, 1<<16))
			if written += n; err != nil {
				return
			}
		}
	}))
	defer srv.Close()
	s := &sender{}
	defer s.close()
	if out := s.send(t.Context(), call{url: srv.URL}, target{}); out.err == nil || out.refused {
		t.Errorf("%+v", out)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-hung; cancel() }()
	if out := s.send(ctx, call{url: srv.URL + "/hang"}, target{}); out.err == nil {
		t.Error("no error")
	}
}
