package apiserver_test

import (
	"net/http"
	"strings"
	"testing"
)

// TestCrossSite: a page of another site writes nothing by the credentials that a
// browser adds, and runs no commands; everybody else goes on as before.
func TestCrossSite(t *testing.T) {
	c := newNodeCluster(t)
	const maps = "/api/v1/namespaces/default/configmaps"
	const exec = "/api/v1/namespaces/default/pods/p/exec?command=id&stdout=true"
	body := func(name string) string { return `{"metadata":{"name":"` + name + `"}}` }
	ws := []string{"Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Protocol: v5.channel.k8s.io"}
	for _, tt := range []struct {
		name, method, path, body string
		headers                  []string
		refused                  bool
	}{
		{"a form without a type", "POST", maps, body("a"), []string{"Sec-Fetch-Site: cross-site"}, true},
		{"a script of another site", "POST", maps, body("b"), []string{"Sec-Fetch-Site: cross-site", "Origin: https://evil.example.com", "Content-Type: text/plain"}, true},
		{"a sibling of the host", "POST", maps, body("c"), []string{"Sec-Fetch-Site: same-site"}, true},
		{"an old browser", "POST", maps, body("d"), []string{"Origin: https://evil.example.com"}, true},
		{"a sandboxed page", "POST", maps, body("e"), []string{"Origin: null"}, true},
		{"to delete", "DELETE", maps + "/x", "", []string{"Sec-Fetch-Site: cross-site"}, true},
		{"a command by WebSocket", "GET", exec, "", append([]string{"Origin: https://evil.example.com"}, ws...), true},
		{"a command by SPDY", "GET", exec, "", []string{"Connection: Upgrade", "Upgrade: SPDY/3.1", "Sec-Fetch-Site: cross-site"}, true},
		{"through a proxy", "POST", "/api/v1/nodes/n1/proxy/page", "", []string{"Sec-Fetch-Site: cross-site"}, true},
		{"a link", "GET", maps, "", []string{"Sec-Fetch-Site: cross-site"}, false},
		{"kubectl", "POST", maps, body("f"), nil, false},
		{"the tests of Kubernetes", "GET", exec, "", append([]string{"Origin: http://localhost"}, ws...), false},
		{"a program with a token", "POST", maps, body("h"), []string{"Origin: https://console.example.com", "Authorization: Bearer admin"}, false},
		{"a password, which browsers add", "POST", maps, body("i"), []string{"Origin: https://evil.example.com", "Authorization: Basic YTpi"}, true},
		{"the own page", "POST", maps, body("g"), []string{"Sec-Fetch-Site: same-origin", "Origin: http://127.0.0.1:8001"}, false},
	} {
		// What gets through finds that nobody is signed in here: a browser adds
		// certificates and passwords, and never the tokens of the other tests.
		r := c.serve("", tt.method, tt.path, tt.body, tt.headers...)
		refused := r.Code == http.StatusForbidden && strings.Contains(r.Body.String(), "the request comes from a page of another site")
		if refused != tt.refused || !refused && r.Code == http.StatusForbidden {
			t.Errorf("%s: %d %s", tt.name, r.Code, r.Body)
		}
	}
}

// TestProxySandboxed: a page behind a proxy has no rights of the server's origin.
func TestProxySandboxed(t *testing.T) {
	c := newNodeCluster(t)
	if r := c.serve("admin", "GET", "/api/v1/nodes/n1/proxy/page", ""); r.Code != 200 || r.Header().Get("Content-Security-Policy") != "sandbox" {
		t.Errorf("%d %v", r.Code, r.Header())
	}
}
