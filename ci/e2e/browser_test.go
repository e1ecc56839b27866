//go:build e2e

package e2e

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/fetch"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
)

// browser is a tab of a Chromium that runs in the cluster's namespace.
type browser struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	asked    []string // every URL that was asked for
	complain []string // what the console says
}

// browse starts Chromium. It trusts the certificate that the server
// has now.
func (c *cluster) browse(t *testing.T) *browser {
	t.Helper()
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal("chromium is not installed (ci/install-deps test)")
	}
	inside := filepath.Join(c.dir, "chromium")
	c.write(inside, "#!/bin/sh\nexec nsenter --net=/run/netns/"+c.netns+" -- "+chromium+" \"$@\"\n")
	if err := os.Chmod(inside, 0o700); err != nil {
		t.Fatal(err)
	}
	var key [sha256.Size]byte
	if err := c.within(func() error {
		conn, err := tls.Dial("tcp", "127.0.0.1:6443", &tls.Config{RootCAs: c.roots()})
		if err != nil {
			return err
		}
		defer conn.Close()
		key = sha256.Sum256(conn.ConnectionState().PeerCertificates[0].RawSubjectPublicKeyInfo)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	alloc, cancelAlloc := chromedp.NewExecAllocator(context.Background(), append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(inside), chromedp.NoSandbox, chromedp.UserDataDir(t.TempDir()), chromedp.WindowSize(1440, 900),
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("ignore-certificate-errors-spki-list", base64.StdEncoding.EncodeToString(key[:])))...)
	t.Cleanup(cancelAlloc)
	return tab(t, alloc)
}

// another is a tab that shares nothing with this one, as of somebody else.
func (b *browser) another() *browser {
	b.t.Helper()
	return tab(b.t, b.ctx, chromedp.WithNewBrowserContext())
}

func tab(t *testing.T, parent context.Context, opts ...chromedp.ContextOption) *browser {
	t.Helper()
	ctx, cancel := chromedp.NewContext(parent, opts...)
	t.Cleanup(cancel)
	b := &browser{t: t, ctx: ctx}
	b.do(chromedp.Navigate("about:blank")) // starts the browser, which lives as long as its context
	ctx, cancelTime := context.WithTimeout(ctx, time.Minute)
	t.Cleanup(cancelTime)
	b.ctx = ctx
	if err := chromedp.Listen(ctx, b.event); err != nil {
		t.Fatal(err)
	}
	if _, err := chromedp.Call(ctx, network.Enable, network.EnableParams{}); err != nil {
		t.Fatal(err)
	}
	go func() {
		for m, err := range chromedp.Console(ctx) {
			if err != nil {
				return
			}
			b.mu.Lock()
			b.complain = append(b.complain, string(m.Type)+": "+m.Text+" "+m.URL)
			b.mu.Unlock()
		}
	}()
	return b
}

func (b *browser) event(ev any) {
	if e, ok := ev.(*network.EventRequestWillBeSent); ok {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.asked = append(b.asked, e.Request.URL)
	}
}

// signIn opens a page, answers the browser's question for name and password,
// and returns the status of the page that is shown then. Without a name, and
// when it is asked again because they are wrong, it gives up, as a person does
// by Escape.
func (b *browser) signIn(url, name, password string) int {
	b.t.Helper()
	ctx, cancel := context.WithCancel(b.ctx)
	defer cancel()
	paused, asked := chromedp.Events(ctx, fetch.RequestPaused), chromedp.Events(ctx, fetch.AuthRequired)
	go func() {
		for e, err := range paused {
			if err != nil {
				return
			}
			_, _ = chromedp.Call(ctx, fetch.ContinueRequest, fetch.ContinueRequestParams{RequestID: e.RequestID})
		}
	}()
	go func() {
		escape := &fetch.AuthChallengeResponse{Response: fetch.AuthChallengeResponseResponseCancelAuth}
		answer := &fetch.AuthChallengeResponse{Response: fetch.AuthChallengeResponseResponseProvideCredentials, Username: name, Password: password}
		if name == "" {
			answer = escape
		}
		for e, err := range asked {
			if err != nil {
				return
			}
			_, _ = chromedp.Call(ctx, fetch.ContinueWithAuth, fetch.ContinueWithAuthParams{RequestID: e.RequestID, AuthChallengeResponse: answer})
			answer = escape
		}
	}()
	if _, err := chromedp.Call(ctx, fetch.Enable, fetch.EnableParams{HandleAuthRequests: new(true)}); err != nil {
		b.t.Fatal(err)
	}
	status := b.open(url)
	if _, err := chromedp.Call(ctx, fetch.Disable, cdp.Empty{}); err != nil {
		b.t.Fatal(err)
	}
	return status
}

// forgive forgets what the console has said: what was wanted is no complaint.
func (b *browser) forgive() {
	b.t.Helper()
	b.lastWord()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.complain = nil
}

// lastWord waits until everything that the console has said is heard.
func (b *browser) lastWord() {
	b.t.Helper()
	const end = "the last word"
	eval[bool](b, `(console.debug("`+end+`"), true)`)
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		b.mu.Lock()
		i := slices.IndexFunc(b.complain, func(m string) bool { return strings.Contains(m, end) })
		if i >= 0 {
			b.complain = slices.Delete(b.complain, i, i+1)
		}
		b.mu.Unlock()
		if i >= 0 {
			return
		}
	}
	b.t.Fatal("the console was not heard")
}

func (b *browser) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		b.t.Fatal(err)
	}
}

// open opens a page and returns the status of the answer.
func (b *browser) open(url string) int {
	b.t.Helper()
	b.do(chromedp.Navigate(url), chromedp.WaitVisible("#main"))
	return eval[int](b, `performance.getEntriesByType("navigation")[0].responseStatus`)
}

// eval runs a line of JavaScript.
func eval[T any](b *browser, js string) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](js))
	if err != nil {
		b.t.Fatalf("%s: %v", js, err)
	}
	return v
}

// text is what a part of the page says.
func (b *browser) text(selector string) string {
	b.t.Helper()
	return eval[string](b, `[...document.querySelectorAll("`+selector+`")].map(e => e.innerText).join("\n")`)
}

// until waits for a line of JavaScript to become true.
func (b *browser) until(js string) {
	b.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !eval[bool](b, "!!("+js+")"); {
		if time.Now().After(deadline) {
			b.t.Fatalf("never true: %s\n%.3000s", js, b.text("#main"))
		}
		b.do(chromedp.Sleep(20 * time.Millisecond))
	}
}
