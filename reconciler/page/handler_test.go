package page

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/net/html"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// get asks a page as jane.
func get(h http.Handler, path string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	as(h, jane).ServeHTTP(w, r)
	return w
}

// crawl follows every link from the first page and returns what was found, by
// path.
func crawl(t *testing.T, h http.Handler, most int) map[string]string {
	t.Helper()
	found, queue := map[string]string{}, []string{Prefix}
	for len(queue) > 0 && len(found) < most {
		path := queue[0]
		queue = queue[1:]
		if _, ok := found[path]; ok {
			continue
		}
		w := get(h, path)
		body := w.Body.String()
		found[path] = body
		if w.Code != http.StatusOK {
			t.Errorf("%s: %d", path, w.Code)
			continue
		}
		for _, to := range links(t, body) {
			u, err := url.Parse(to)
			if err != nil || u.IsAbs() || u.Host != "" || !strings.HasPrefix(u.Path, Prefix) && u.Path != "" {
				t.Errorf("%s links to %q", path, to)
				continue
			}
			u.Fragment = ""
			if s := u.String(); s != "" && !strings.Contains(s, "/static/") {
				queue = append(queue, s)
			}
		}
	}
	return found
}

func links(t *testing.T, body string) []string {
	var out []string
	for n := range nodes(t, body) {
		if n.Data != "a" {
			continue
		}
		for _, a := range n.Attr {
			if a.Key == "href" {
				out = append(out, a.Val)
			}
		}
	}
	return out
}

func nodes(t *testing.T, body string) func(func(*html.Node) bool) {
	t.Helper()
	doc, err := html.Parse(strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return func(yield func(*html.Node) bool) {
		for n := range doc.Descendants() {
			if n.Type == html.ElementNode && !yield(n) {
				return
			}
		}
	}
}

// TestEveryLink walks the whole page: no link leads nowhere, nothing is in
// line, ids are unique, and every picture that is used is there.
func TestEveryLink(t *testing.T) {
	f := newFixture(noon)
	p := New(Config{Cache: f.Cache(), Authorize: allow, Now: f.clock})
	pages := crawl(t, p, 400)
	if len(pages) < 300 {
		t.Errorf("only %d pages were found", len(pages))
	}
	for path, body := range pages {
		ids := map[string]bool{}
		var uses []string
		for n := range nodes(t, body) {
			if n.Data == "style" || n.Data == "script" && n.FirstChild != nil || n.Data == "iframe" || n.Data == "object" || n.Data == "embed" {
				t.Errorf("%s: a <%s> in line", path, n.Data)
			}
			for _, a := range n.Attr {
				switch {
				case a.Key == "style" || strings.HasPrefix(a.Key, "on"):
					t.Errorf("%s: <%s %s=%q> in line", path, n.Data, a.Key, a.Val)
				case a.Key == "id" && ids[a.Val]:
					t.Errorf("%s: the id %q is there twice", path, a.Val)
				case a.Key == "id":
					ids[a.Val] = true
				case n.Data == "use" && a.Key == "href":
					uses = append(uses, strings.TrimPrefix(a.Val, "#"))
				}
			}
		}
		for _, u := range uses {
			if !ids[u] {
				t.Errorf("%s: there is no symbol %q", path, u)
			}
		}
	}
}

func TestMethodsAndPaths(t *testing.T) {
	p := New(Config{Cache: newFixture(noon).Cache(), Authorize: allow})
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT"} {
		w := httptest.NewRecorder()
		as(p, jane).ServeHTTP(w, httptest.NewRequest(method, "/ui/objects", nil))
		if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET, HEAD" {
			t.Errorf("%s: %d", method, w.Code)
		}
	}
	for path, want := range map[string]int{
		"/ui": 301, "/ui/": 200, "/ui/commits": 200, "/ui/commits/": 404, "/ui/commits/none": 404, "/ui/objects/core/pods/shop/none": 404, "/ui/objects/core/none/shop/a": 404,
		"/ui/objects/a/b": 404, "/ui/nodes/none": 404, "/ui/repositories/none": 404, "/ui/else": 404, "/ui/../objects": 404, "/ui/%2e%2e/x": 404, "/ui/commits/%zz": 404, "/ui/static/none": 404, "/ui/static/../page.go": 404,
		"/ui/objects?page=99999999999999999999&q=%00%ff": 200, "/ui/objects/core/configmaps/shop/feature-flags": 200, "/ui/objects/core/configmaps/shop/feature-flags?tab=yaml": 200, "/ui/live": 503,
	} {
		r := &http.Request{Method: "GET", Header: http.Header{}, Host: "x"}
		if u, err := url.Parse(path); err == nil {
			r.URL = u
		} else {
			continue
		}
		w := httptest.NewRecorder()
		as(p, jane).ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("%s: %d, want %d", path, w.Code, want)
		}
	}
}

func TestHeaders(t *testing.T) {
	p := New(Config{Cache: newFixture(noon).Cache(), Authorize: allow, Now: newFixture(noon).clock})
	w := get(p, "/ui/objects", "Accept-Encoding", "br, gzip;q=1.0")
	h := w.Header()
	if csp := h.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") || strings.Contains(csp, "unsafe") {
		t.Errorf("policy %q", csp)
	}
	for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Content-Encoding": "gzip", "Cache-Control": "private, no-cache"} {
		if got := h.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	z, err := gzip.NewReader(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	if plain := get(p, "/ui/objects", "Accept-Encoding", "gzip;q=0"); plain.Header().Get("Content-Encoding") != "" || !bytes.Equal(plain.Body.Bytes(), whole) {
		t.Error("the page differs without gzip")
	}
	for _, tag := range []string{h.Get("ETag"), "W/" + h.Get("ETag"), `"x", ` + h.Get("ETag")} {
		if again := get(p, "/ui/objects", "If-None-Match", tag); again.Code != http.StatusNotModified || again.Body.Len() > 0 {
			t.Errorf("the same page again with %s: %d, %d bytes", tag, again.Code, again.Body.Len())
		}
	}
	part := get(p, "/ui/objects", fragment, "1")
	if body := part.Body.String(); !strings.HasPrefix(body, "<main") || strings.Contains(body, "<head>") || part.Header().Get("ETag") == h.Get("ETag") {
		t.Errorf("a part of the page: %.60q", body)
	}
	r := httptest.NewRequest(http.MethodHead, "/ui/objects", nil)
	head := httptest.NewRecorder()
	as(p, jane).ServeHTTP(head, r)
	if head.Code != 200 || head.Body.Len() != 0 || head.Header().Get("ETag") == "" {
		t.Errorf("HEAD: %d, %d bytes", head.Code, head.Body.Len())
	}
}

func TestAssets(t *testing.T) {
	p := New(Config{})
	for name, path := range looks().assets.paths {
		w := get(p, path)
		if w.Code != 200 || !strings.Contains(w.Header().Get("Cache-Control"), "immutable") || w.Body.Len() == 0 {
			t.Errorf("%s: %d %s", name, w.Code, w.Header().Get("Cache-Control"))
		}
		if again := get(p, path, "If-None-Match", w.Header().Get("ETag")); again.Code != http.StatusNotModified {
			t.Errorf("%s again: %d", name, again.Code)
		}
	}
	css := get(p, looks().assets.paths["page.css"]).Body.String()
	for _, u := range regexp.MustCompile(`url\(([^)]*)\)`).FindAllStringSubmatch(css, -1) {
		if w := get(p, u[1]); w.Code != 200 {
			t.Errorf("the style sheet asks for %s: %d", u[1], w.Code)
		}
	}
	small := len(looks().assets.byPath[strings.TrimPrefix(looks().assets.paths["page.css"], Prefix+"static/")].small) + len(looks().assets.byPath[strings.TrimPrefix(looks().assets.paths["page.js"], Prefix+"static/")].small)
	t.Logf("style sheet and script: %d bytes over the wire", small)
	if small > 20_000 {
		t.Errorf("style sheet and script are %d bytes over the wire", small)
	}
}

func TestSignIn(t *testing.T) {
	p := New(Config{Cache: newFixture(noon).Cache(), Authorize: allow})
	for name, h := range map[string]http.Handler{"nobody": p, "anonymous": as(p, &user.DefaultInfo{Name: user.Anonymous}), "unauthenticated": as(p, &user.DefaultInfo{Name: "x", Groups: []string{user.AllUnauthenticated}})} {
		for _, path := range []string{"/ui/", "/ui/objects", "/ui/live", "/ui/none"} {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
			if w.Code != http.StatusUnauthorized || w.Header().Get("WWW-Authenticate") == "" || strings.Contains(w.Body.String(), "checkout") {
				t.Errorf("%s, %s: %d", name, path, w.Code)
			}
		}
	}
}

// TestAuthorization looks at everything that one who may read only a namespace,
// and no Secrets, can reach: nothing else is anywhere.
func TestAuthorization(t *testing.T) {
	f := newFixture(noon)
	f.declare("shop", "apps/payment.yaml", 3, &corev1.Secret{ObjectMeta: f.meta("shop", "hushhush", 0)})
	f.Put(&corev1.Secret{ObjectMeta: f.meta("shop", "murmur", 0)})
	f.refresh()
	global := map[string]bool{"Commit": true, "Repository": true, "Inventory": true}
	asked := 0
	p := New(Config{Cache: f.Cache(), Now: f.clock, Authorize: func(_ context.Context, u user.Info, verb string, r *schema.Resource, ns, _ string) bool {
		asked++
		if u.GetName() != "jane" || verb != "get" && verb != "list" {
			t.Errorf("asked for %s by %s", verb, u.GetName())
		}
		return r.Kind != "Secret" && (ns == "shop" || ns == "" && global[r.Kind])
	}})
	pages := crawl(t, p, 300)
	for path, body := range pages {
		for _, no := range []string{"hushhush", "murmur", "grafana", "postgres-", "kafka-", "10.20.0.1", "ingress-nginx", "on-call\""} {
			if i := strings.Index(body, no); i >= 0 {
				t.Errorf("%s shows %q: …%s…", path, no, body[max(0, i-80):min(len(body), i+80)])
			}
		}
	}
	if len(pages) < 100 || asked == 0 || !strings.Contains(pages["/ui/objects"], "checkout") {
		t.Errorf("%d pages were found, %d questions asked", len(pages), asked)
	}
	for _, path := range []string{"/ui/objects/core/secrets/shop/hushhush", "/ui/objects/core/secrets/shop/hushhush?tab=yaml", "/ui/objects/apps/deployments/monitoring/grafana", "/ui/nodes/fra-cp-1", "/ui/objects/core/nodes/-/fra-cp-1"} {
		if w := get(p, path); w.Code != http.StatusNotFound {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
	if w := get(p, "/ui/commits/shop-"+sha(1)[:12]); strings.Contains(w.Body.String(), "payment-key") || !strings.Contains(w.Body.String(), "not shown") {
		t.Error("a commit shows a Secret that may not be read")
	}
	closed := New(Config{Cache: f.Cache()}) // without Authorize
	for _, path := range []string{"/ui/", "/ui/objects?all=1", "/ui/commits", "/ui/repositories", "/ui/nodes"} {
		if w := get(closed, path); w.Code != 200 || strings.Contains(w.Body.String(), "shop") {
			t.Errorf("%s shows something to one who may read nothing", path)
		}
	}
}

const hostile = `"><script>alert(1)</script><img src=x onerror=alert(1)>'; javascript:alert(1) {{.}} ${x}`

// TestHostileNames puts markup into every text that others write.
func TestHostileNames(t *testing.T) {
	f := newFixture(noon)
	name := "evil" + hostile
	d := f.declare("shop", name, 1, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: name, UID: "e", Labels: map[string]string{name: name}, Annotations: map[string]string{"a": hostile}}, Data: map[string]string{name: hostile}})
	f.files["shop/"+name].Spec.Author, f.files["shop/"+name].Spec.Commit = hostile, hostile
	f.event(d, hostile, hostile, hostile, 1, 0)
	pod := f.pod(name, name, hostile, "crash", d, 0)
	pod.Status.ContainerStatuses[0].State.Waiting.Reason, pod.Status.ContainerStatuses[0].State.Waiting.Message = hostile, hostile
	f.Put(pod)
	c := at("shop-evil", 0, v1alpha1.CommitFailed, 0, 0, 1)
	c.Spec = v1alpha1.CommitSpec{Repository: hostile, SHA: hostile, Parent: hostile, Branch: hostile, Author: hostile, Message: hostile + "\n" + hostile}
	c.Status.Message, c.Status.Phase, c.Status.RolledBackTo = hostile, v1alpha1.CommitPhase(hostile), hostile
	c.Status.Findings = []v1alpha1.Finding{{File: hostile, Line: 1, Column: 1, Object: hostile, Field: hostile, Rule: hostile, Message: hostile, Hint: hostile}}
	c.Status.Changes = []v1alpha1.CommitChange{{Action: hostile, Object: "ConfigMap/" + hostile, File: hostile, Fields: []v1alpha1.FieldChange{{Path: hostile, Old: hostile, New: hostile}}}}
	c.Status.Consequences = []v1alpha1.CommitConsequence{{Object: hostile, Kind: hostile, Message: hostile}}
	c.Status.Unhealthy = []v1alpha1.ObjectHealth{{Object: hostile, Health: hostile, Message: hostile}}
	c.Status.Signature = &v1alpha1.CommitSignature{State: hostile, Key: hostile, Signer: hostile, Message: hostile}
	f.Put(c)
	f.Put(&v1alpha1.Repository{ObjectMeta: metav1.ObjectMeta{Name: hostile}, Spec: v1alpha1.RepositorySpec{URL: "javascript:alert(1)//" + hostile, Branch: hostile}, Status: v1alpha1.RepositoryStatus{Head: hostile, Applied: hostile, Failed: []string{hostile},
		Drifted: []v1alpha1.ObjectHealth{{Object: hostile, Message: hostile}}, Conditions: []metav1.Condition{{Type: "Ready", Status: "False", Reason: hostile, Message: hostile}}}})
	f.Put(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: hostile, Labels: map[string]string{"node-role.kubernetes.io/" + hostile: ""}}, Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{OSImage: hostile, KubeletVersion: hostile}}})
	f.refresh()
	p := New(Config{Cache: f.Cache(), Authorize: allow, Version: hostile, Now: f.clock})
	e := url.PathEscape
	for _, path := range []string{"/ui/", "/ui/commits", "/ui/commits/shop-evil", "/ui/objects?q=evil&all=1", "/ui/objects?q=" + url.QueryEscape(hostile) + "&repository=" + url.QueryEscape(hostile), "/ui/objects?by=namespace&namespace=" + url.QueryEscape(name),
		"/ui/objects/core/configmaps/" + e(name) + "/" + e(name), "/ui/objects/core/configmaps/" + e(name) + "/" + e(name) + "?tab=yaml", "/ui/objects/core/configmaps/" + e(name) + "/" + e(name) + "?tab=events",
		"/ui/objects/core/pods/" + e(name) + "/" + e(name), "/ui/repositories", "/ui/repositories/" + e(hostile), "/ui/repositories/shop?file=" + url.QueryEscape(name), "/ui/nodes", "/ui/nodes/" + e(hostile)} {
		w := get(p, path)
		body := w.Body.String()
		if w.Code != 200 || !strings.Contains(body, "alert(1)") {
			t.Errorf("%s: %d, with the text: %v", path, w.Code, strings.Contains(body, "alert(1)"))
		}
		scripts := 0
		for n := range nodes(t, body) {
			if n.Data == "script" {
				scripts++
			}
			if n.Data == "img" {
				t.Errorf("%s: an <img> came in", path)
			}
			for _, a := range n.Attr {
				if strings.HasPrefix(a.Key, "on") || slices.Contains([]string{"href", "src", "action"}, a.Key) && !strings.HasPrefix(a.Val, "/ui/") && !strings.HasPrefix(a.Val, "#") {
					t.Errorf("%s: <%s %s=%q>", path, n.Data, a.Key, a.Val)
				}
			}
		}
		if scripts != 1 {
			t.Errorf("%s: %d scripts", path, scripts)
		}
	}
}

// TestContrast reads the colours of the style sheet: text on its ground reaches
// 4.5:1 and marks 3:1, in both schemes.
func TestContrast(t *testing.T) {
	css, err := staticFiles.ReadFile("static/page.css")
	if err != nil {
		t.Fatal(err)
	}
	light, dark, _ := strings.Cut(string(css), "@media (prefers-color-scheme: dark)")
	dark, _, _ = strings.Cut(dark, "*, *::before")
	rule := regexp.MustCompile(`--([a-z-]+): #([0-9a-f]{6});`)
	colours := func(text string, base map[string]string) map[string]string {
		m := map[string]string{}
		for k, v := range base {
			m[k] = v
		}
		for _, r := range rule.FindAllStringSubmatch(text, -1) {
			m[r[1]] = r[2]
		}
		return m
	}
	l := colours(light, nil)
	for scheme, c := range map[string]map[string]string{"light": l, "dark": colours(dark, l)} {
		check := func(front, ground string, least float64) {
			if got := contrast(t, c[front], c[ground]); got < least {
				t.Errorf("%s: %s on %s is %.2f:1, want %.1f", scheme, front, ground, got, least)
			}
		}
		for _, ground := range []string{"bg", "surface", "sunken", "hover"} {
			for _, front := range []string{"text", "muted", "accent", "ok-text", "bad-text", "warn-text", "busy-text", "wait-text", "idle-text"} {
				check(front, ground, 4.5)
			}
		}
		for _, s := range []string{"ok", "bad", "warn", "busy", "wait", "idle"} {
			check(s+"-text", s+"-bg", 4.5)
		}
		check("accent", "accent-bg", 4.5)
		check("muted", "idle-bg", 4.5)
		check("side-text", "side", 4.5)
		check("side-on", "side-hover", 4.5)
		for _, s := range []string{"ok", "bad", "busy", "wait"} {
			check(s, "surface", 3)
		}
	}
}

func contrast(t *testing.T, a, b string) float64 {
	la, lb := luminance(t, a), luminance(t, b)
	return (max(la, lb) + .05) / (min(la, lb) + .05)
}

func luminance(t *testing.T, hex string) float64 {
	t.Helper()
	n, err := strconv.ParseUint(hex, 16, 32)
	if err != nil {
		t.Fatalf("colour %q: %v", hex, err)
	}
	part := func(v uint64) float64 {
		f := float64(v&255) / 255
		if f <= .04045 {
			return f / 12.92
		}
		return math.Pow((f+.055)/1.055, 2.4)
	}
	return .2126*part(n>>16) + .7152*part(n>>8) + .0722*part(n)
}
