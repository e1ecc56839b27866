package adversary

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/cmd/writ/cluster"
)

// victim is an administrator whose browser knows the password.
const (
	victim         = "victim"
	victimPassword = "correct-horse"
	inDefault      = "/api/v1/namespaces/default/configmaps"
)

// TestBrowser: a page of another site, open in the browser of an administrator
// who has signed in. The browser adds the password to what the page asks for.
func TestBrowser(t *testing.T) {
	c := start(t, func(cfg *cluster.Config) {
		cfg.API.BasicFile = filepath.Join(filepath.Dir(cfg.DataDir), "passwords.csv")
		line := fmt.Sprintf("%s,%s,9,\"system:masters\"\n", victimPassword, victim)
		if err := os.WriteFile(cfg.API.BasicFile, []byte(line), 0o600); err != nil {
			t.Fatal(err)
		}
	})
	b := c.browse()
	b.adds("Basic " + base64.StdEncoding.EncodeToString([]byte(victim+":"+victimPassword)))
	b.visit("https://" + c.addr + "/version")
	report(t, "the administrator's own page", []attempt{
		b.makes("writes by the password that the browser adds", allowed, "own", `fetch(URL, {method: "POST", body: BODY, headers: {"Content-Type": "application/json"}})`),
		b.makes("a body of no type", allowed, "own-blob", `fetch(URL, {method: "POST", body: new Blob([BODY])})`),
		b.reads("reads Secrets", allowed, `fetch(API + "/api/v1/secrets").then(r => r.text())`, `"SecretList"`),
	})

	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<!doctype html><title>prizes</title><p>You have won."))
	}))
	t.Cleanup(site.Close)
	b.visit(site.URL)
	const form = `new Promise(done => {
		const frame = document.createElement("iframe"); frame.name = NAME; document.body.append(frame);
		const form = document.createElement("form");
		Object.assign(form, {method: "POST", action: URL, enctype: "text/plain", target: NAME});
		const field = document.createElement("input");
		field.name = BODY.slice(0, -1) + ',"x":"'; field.value = '"}';
		form.append(field); document.body.append(form);
		frame.onload = () => done("sent"); form.submit();
	})`
	report(t, "a browser on another site", []attempt{
		b.makes("a form", refused, "form", form),
		b.makes("a request without a preflight", refused, "simple", `fetch(URL, {method: "POST", mode: "no-cors", credentials: "include", body: BODY})`),
		b.makes("a body of no type", refused, "blob", `fetch(URL, {method: "POST", mode: "no-cors", credentials: "include", body: new Blob([BODY])})`),
		b.makes("a request with one", refused, "preflight", `fetch(URL, {method: "POST", credentials: "include", body: BODY, headers: {"Content-Type": "application/json"}})`),
		b.makes("a beacon", refused, "beacon", `navigator.sendBeacon(URL, BODY)`),
		b.removes("a deletion", `fetch(URL, {method: "DELETE", credentials: "include"})`),
		b.reads("reads Secrets", refused, `fetch(API + "/api/v1/secrets", {credentials: "include"}).then(r => r.text())`, `"SecretList"`),
		b.reads("reads Secrets by a script", refused, `new Promise(done => {
			const s = document.createElement("script"); s.src = API + "/api/v1/secrets";
			s.onload = () => done("it ran"); s.onerror = () => done("it did not load");
			addEventListener("error", e => done(e.message)); document.head.append(s); })`, "SecretList"),
		b.reads("watches Secrets by a WebSocket", refused, `new Promise(done => {
			const s = new WebSocket(API.replace("https", "wss") + "/api/v1/secrets?watch=true");
			s.onmessage = e => done(String(e.data)); s.onerror = () => done("it did not open"); })`, "Secret"),
	})
}

// browser is a tab of a real Chromium.
type browser struct {
	c   *target
	ctx context.Context
}

// browse starts a browser that trusts the server's certificate.
func (c *target) browse() *browser {
	c.Helper()
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		c.Skip("chromium is not installed (ci/install-deps test)")
	}
	conn, err := tls.Dial("tcp", c.addr, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // for its key alone
	if err != nil {
		c.Fatal(err)
	}
	key := sha256.Sum256(conn.ConnectionState().PeerCertificates[0].RawSubjectPublicKeyInfo)
	_ = conn.Close()
	alloc, cancelAlloc := chromedp.NewExecAllocator(context.Background(), append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(chromium), chromedp.NoSandbox, chromedp.UserDataDir(c.TempDir()),
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("ignore-certificate-errors-spki-list", base64.StdEncoding.EncodeToString(key[:])))...)
	c.Cleanup(cancelAlloc)
	ctx, cancel := chromedp.NewContext(alloc)
	c.Cleanup(cancel)
	if err := chromedp.Do(ctx, chromedp.Navigate("about:blank")); err != nil { // starts it, and it lives as long as ctx
		c.Fatal(err)
	}
	ctx, cancelTime := context.WithTimeout(ctx, 3*time.Minute)
	c.Cleanup(cancelTime)
	return &browser{c, ctx}
}

func (b *browser) visit(url string) {
	b.c.Helper()
	if err := chromedp.Do(b.ctx, chromedp.Navigate(url)); err != nil {
		b.c.Fatalf("visit %s: %v", url, err)
	}
}

// adds makes the browser add a credential to whatever any page asks for, as it
// does with a password that was typed once, or a certificate that was chosen.
func (b *browser) adds(credential string) {
	b.c.Helper()
	if _, err := chromedp.Call(b.ctx, network.Enable, network.EnableParams{}); err != nil {
		b.c.Fatal(err)
	}
	headers := network.SetExtraHTTPHeadersParams{Headers: network.Headers{"Authorization": credential}}
	if _, err := chromedp.Call(b.ctx, network.SetExtraHTTPHeaders, headers); err != nil {
		b.c.Fatal(err)
	}
}

// run runs a script in the page that is shown. What it answers is a string, its
// error as well. API, URL, BODY and NAME are what it may use.
func (b *browser) run(script, name string) string {
	b.c.Helper()
	api := "https://" + b.c.addr
	url := inDefault
	if name == doomed {
		url += "/" + name
	}
	js := fmt.Sprintf(`(async () => {
		const API = %q, NAME = %q, URL = API + %q, BODY = JSON.stringify({apiVersion: "v1", kind: "ConfigMap", metadata: {name: NAME}});
		try { return String(await (%s)); } catch (e) { return String(e); }
	})()`, api, name, url, script)
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](js, chromedp.EvalAwaitPromise))
	if err != nil {
		b.c.Fatalf("%s: %v", name, err)
	}
	return v
}

// makes is a script that makes a ConfigMap of a name.
func (b *browser) makes(what string, want result, name, script string) attempt {
	return attempt{what, want, func() (string, bool) {
		said := b.run(script, name)
		if want == refused {
			time.Sleep(500 * time.Millisecond) // a beacon comes when it pleases
		}
		_, err := b.c.admin.CoreV1().ConfigMaps("default").Get(b.c.Context(), name, metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			b.c.Fatal(err)
		}
		return said, err == nil
	}}
}

// doomed is a ConfigMap that is to be deleted.
const doomed = "doomed"

// removes is a script that deletes a ConfigMap.
func (b *browser) removes(what, script string) attempt {
	return attempt{what, refused, func() (string, bool) {
		maps := b.c.admin.CoreV1().ConfigMaps("default")
		if _, err := maps.Create(b.c.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: doomed}}, metav1.CreateOptions{}); err != nil {
			b.c.Fatal(err)
		}
		said := b.run(script, doomed)
		_, err := maps.Get(b.c.Context(), doomed, metav1.GetOptions{})
		return said, apierrors.IsNotFound(err)
	}}
}

// reads is a script that answers what it has read.
func (b *browser) reads(what string, want result, script, sign string) attempt {
	return attempt{what, want, func() (string, bool) {
		said := b.run(script, "x")
		return said, strings.Contains(said, sign)
	}}
}
