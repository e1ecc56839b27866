package pod

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// said are the reasons of the events of a test.
type said []string

func (s *said) EventAbout(_ corev1.ObjectReference, _, reason, _ string) { *s = append(*s, reason) }

// A hook over HTTPS does not check whose certificate it is, and any answer is
// good enough.
func TestHTTPHook(t *testing.T) {
	var asked *http.Request
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r
		if r.URL.Path == "/fails" {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	plain, secure := httptest.NewServer(handler), httptest.NewTLSServer(handler)
	plain.Config.ErrorLog, secure.Config.ErrorLog = nil, nil
	defer plain.Close()
	defer secure.Close()
	gone := httptest.NewServer(handler)
	gone.Close()
	for _, tt := range []struct {
		name   string
		server *httptest.Server
		scheme corev1.URIScheme
		path   string
		fails  bool
		event  string
	}{
		{"HTTP", plain, corev1.URISchemeHTTP, "/", false, ""},
		{"HTTPS", secure, corev1.URISchemeHTTPS, "/", false, ""},
		{"an answer that is an error", plain, "", "/fails", false, ""},
		{"HTTPS to a server of HTTP", plain, corev1.URISchemeHTTPS, "/", false, "LifecycleHTTPFallback"},
		{"nobody there", gone, corev1.URISchemeHTTP, "/", true, ""},
		{"nobody there over HTTPS", gone, corev1.URISchemeHTTPS, "/", true, ""},
	} {
		asked = nil
		host, port, err := net.SplitHostPort(strings.TrimPrefix(strings.TrimPrefix(tt.server.URL, "https://"), "http://"))
		if err != nil {
			t.Fatal(err)
		}
		n, _ := strconv.Atoi(port)
		var events said
		h := hook{w: &worker{p: &Pods{cfg: Config{Events: &events}}, desired: &corev1.Pod{}}, spec: &corev1.Container{}, podIP: host}
		err = h.run(t.Context(), &corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{Scheme: tt.scheme, Path: tt.path, Port: intstr.FromInt32(int32(n)),
			HTTPHeaders: []corev1.HTTPHeader{{Name: "Authorization", Value: "Bearer x"}}}})
		if (err != nil) != tt.fails || strings.Join(events, " ") != tt.event {
			t.Errorf("%s: %v, events %v", tt.name, err, events)
		}
		if tt.fails {
			continue
		}
		if asked.UserAgent() != "kube-lifecycle/1.36" || (asked.Header.Get("Authorization") == "") != (tt.event != "") {
			t.Errorf("%s: asked with %v", tt.name, asked.Header)
		}
	}
}

func TestNoHook(t *testing.T) {
	for _, l := range []*corev1.LifecycleHandler{{}, {TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(80)}}} {
		if err := (hook{}).run(t.Context(), l); err == nil || !strings.HasPrefix(err.Error(), "invalid handler: ") {
			t.Errorf("%v: %v", l, err)
		}
	}
}
