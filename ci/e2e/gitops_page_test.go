//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/writ-os/writ/schema/v1alpha1"
)

// Passwords of a viewer, and of one whom the cluster knows and who may nothing.
const (
	viewerPassword   = "vera-pass-6c0"
	strangerPassword = "stan-pass-b44"
)

const origin = "https://127.0.0.1:6443/"

// gitopsPage: the page in a browser, with a viewer's rights.
func gitopsPage(t *testing.T, g *gitops) {
	b := g.browse(t)
	if status := b.signIn(origin+"ui/", "", ""); status != 401 || !strings.Contains(b.text("#main"), "ign in") {
		t.Errorf("who is nobody gets %d: %s", status, b.text("#main"))
	}
	b.forgive() // the 401
	if status := b.signIn(origin+"ui/", "vera", viewerPassword); status != 200 {
		t.Fatalf("a viewer gets %d: %s", status, b.text("#main"))
	}
	b.until(`document.getElementById("live").className == "live on"`)
	if got := b.text(".viewer") + b.text(".hero"); !strings.Contains(got, "vera") || !strings.Contains(got, "objects") {
		t.Errorf("the overview says %s", got)
	}
	pageLive(t, g, b)
	pageCommits(t, g, b)
	pageTree(t, g, b)
	pageTimes(t, g, b)
	b.lastWord()
	b.mu.Lock()
	for _, m := range b.complain {
		t.Errorf("the browser complains: %s", m)
	}
	for _, url := range b.asked {
		if !strings.HasPrefix(url, origin) && url != "about:blank" {
			t.Errorf("a request leaves the origin: %s", url)
		}
	}
	if len(b.asked) < 10 {
		t.Errorf("only %d requests were seen: %v", len(b.asked), b.asked)
	}
	b.mu.Unlock()
	pageStranger(t, g, b.another())
}

// pageLive: a push is on the screen without anything being loaded anew.
func pageLive(t *testing.T, g *gitops, b *browser) {
	b.do(chromedp.Click(`.side nav a[href="/ui/commits"]`), chromedp.WaitVisible(".timeline"))
	eval[bool](b, `window.same = true`)
	text := b.text(".timeline")
	for _, want := range []string{"Version 3", "Nowhere again", "Take it over", "A password", "Begin"} {
		if !strings.Contains(text, want) {
			t.Errorf("the timeline does not show %q:\n%s", want, text)
		}
	}
	g.edit(filepath.Join(g.repo, "blog/home/patch.yaml"), "replicas: 2", "replicas: 4")
	g.publish(g.repo, "Four blogs <script>alert(1)</script>")
	began := time.Now()
	row := `document.getElementById("commit-` + commitName("cluster", g.head(g.repo)) + `")`
	b.until(row + ` && document.querySelector(".timeline .commit") === ` + row)
	t.Logf("a push is on the screen after %v", time.Since(began).Round(time.Millisecond))
	b.until(row + `.querySelector(".phase").innerText == "Healthy"`)
	t.Logf("and healthy after %v", time.Since(began).Round(time.Millisecond))
	if !eval[bool](b, `window.same && !document.querySelector("#main script")`) {
		t.Error("the page was loaded anew, or a message became a script")
	}
}

// pageCommits: what a commit did, and why another was refused.
func pageCommits(t *testing.T, g *gitops, b *browser) {
	name := commitName("cluster", g.head(g.repo))
	b.do(chromedp.Click("#commit-"+name+" a.title"), chromedp.WaitVisible("#plan .change"))
	contains(t, "the commit's page", b.text("#main"), "Four blogs <script>alert(1)</script>", "Jane", "spec.replicas", "2", "4", "blog/base/deployment.yaml:1", "Deployment · apps", "objects are healthy", "in all")
	var all v1alpha1.CommitList
	if err := g.get(&all, "commits.writ.dev"); err != nil {
		t.Fatal(err)
	}
	var refused, warned string
	for _, c := range all.Items {
		switch {
		case !strings.HasPrefix(c.Spec.Message, "A blog and mail"):
		case c.Status.Reason == "Refused":
			refused = c.Name
		default:
			warned = c.Name
		}
	}
	if status := b.open(g.mistake); status != 200 {
		t.Errorf("the link of a notification gives %d", status)
	}
	contains(t, "the page that a notification leads to", b.text("#main"), "A mistake", "web.yaml:5:3", "spec.replica", `did you mean "replicas"?`)
	b.open(origin + "ui/commits/" + warned)
	contains(t, "the page of a commit with a warning", b.text("#warnings"), "blog/base/deployment.yaml:", "say who answers for it")
	b.open(origin + "ui/commits/" + refused)
	contains(t, "the refused commit's page", b.text("#findings"), "blog/home/patch.yaml:10:16", "images come from registry.example.com", "push the image there first")
}

// pageTree: an object with what it owns, down to the pods and their containers.
func pageTree(t *testing.T, g *gitops, b *browser) {
	b.open(origin + "ui/objects/apps/deployments/apps/home-blog")
	pods := `document.querySelectorAll(".graph .card[href*='/pods/']").length`
	b.until(pods + " == 4")
	contains(t, "the Deployment's page", b.text(".provenance")+b.text(".graph .card")+b.text(".head"), "declared in", "blog/base/deployment.yaml:1", "cluster", "Healthy", "home-blog", "registry.example.com/blog:v2")
	b.until(`document.getElementById("live").className == "live on"`)
	eval[bool](b, `window.same = true`)
	g.edit(filepath.Join(g.repo, "blog/home/patch.yaml"), "replicas: 4", "replicas: 3")
	g.publish(g.repo, "Three blogs")
	b.until(pods + " == 3 && window.same")
	g.reaches("cluster", g.head(g.repo), v1alpha1.CommitHealthy)
	eval[bool](b, `(document.querySelector(".graph .card[href*='/pods/']").click(), true)`)
	b.until(`document.querySelector(".head h1").innerText.startsWith("home-blog-")`)
	if path := eval[string](b, "location.pathname"); !strings.HasPrefix(path, "/ui/objects/core/pods/apps/home-blog-") {
		t.Errorf("the pod's page is at %s", path)
	}
	contains(t, "the pod's page", b.text(".provenance")+b.text(".head"), "owned by", "Deployment", "home-blog", "blog/base/deployment.yaml:1", "Healthy")
	if n := eval[int](b, `document.querySelectorAll(".graph .card[href*='/deployments/'], .graph .card[href*='/replicasets/']").length`); n != 2 {
		t.Errorf("the pod's tree has %d of its two owners", n)
	}
	if status := b.open(origin + "ui/objects/core/secrets/shop/shop"); status != 404 {
		t.Errorf("a viewer gets %d for a Secret: %s", status, b.text("#main"))
	}
	b.forgive() // the 404
	b.open(origin + "ui/repositories")
	contains(t, "the repositories", b.text("#main"), "deploy", "shop", "/acme/shop.git", "cluster")
	b.open(origin + "ui/nodes")
	contains(t, "the nodes", b.text("#main"), "Ready")
}

// pageTimes logs how long pages take.
func pageTimes(t *testing.T, g *gitops, b *browser) {
	name := commitName("cluster", g.head(g.repo))
	for _, path := range []string{"ui/", "ui/commits", "ui/commits/" + name, "ui/objects", "ui/objects/apps/deployments/apps/home-blog"} {
		best := []float64{1e9, 1e9, 1e9}
		for range 2 {
			b.open(origin + path)
			b.until(`performance.getEntriesByName("first-contentful-paint").length`)
			took := eval[[]float64](b, `(n => [n.responseStart, n.domContentLoadedEventEnd, performance.getEntriesByName("first-contentful-paint")[0].startTime])(performance.getEntriesByType("navigation")[0])`)
			for i := range best {
				best[i] = min(best[i], took[i])
			}
		}
		if n := eval[int](b, `performance.getEntriesByType("resource").filter(r => r.name.includes("/static/") && r.transferSize > 0).length`); n != 0 {
			t.Errorf("%s: %d files come over the network again", path, n)
		}
		t.Logf("%-45s response after %5.1f ms, content loaded after %5.1f ms, first paint after %5.1f ms", path[2:], best[0], best[1], best[2])
	}
	if dir := os.Getenv("WRIT_SHOTS"); dir != "" {
		png, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, "gitops.png"), string(png))
	}
}

// pageStranger: who may read nothing sees nothing, and a wrong password is none.
func pageStranger(t *testing.T, g *gitops, b *browser) {
	if status := b.signIn(origin+"ui/", "stan", viewerPassword); status != 401 {
		t.Errorf("a wrong password gets %d", status)
	}
	b.signIn(origin+"ui/", "stan", strangerPassword)
	contains(t, "the stranger's overview", b.text(".viewer"), "stan")
	for _, path := range []string{"ui/", "ui/commits", "ui/objects?all=1", "ui/nodes", "ui/repositories"} {
		b.open(origin + path)
		text := b.text("#main")
		for _, secret := range []string{"home-blog", "Three blogs", "acme", "node-0", "Jane"} {
			if strings.Contains(text, secret) {
				t.Errorf("who may read nothing reads %q at /%s:\n%s", secret, path, text)
			}
		}
	}
	for _, path := range []string{"ui/commits/" + commitName("cluster", g.head(g.repo)), "ui/objects/apps/deployments/apps/home-blog", "ui/repositories/shop"} {
		if status := b.open(origin + path); status != 404 {
			t.Errorf("who may read nothing gets %d for /%s: %s", status, path, b.text("#main"))
		}
	}
}
