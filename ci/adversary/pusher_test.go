package adversary

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// mostRSS is what an attempt may cost the server beyond what it has, in bytes.
// Its children are bounded by the kernel.
const mostRSS = 512 << 20

// long says that attempts are made, too, that a server lets go on for minutes
// before it ends them. `make adversary` sets it.
func long() bool { return os.Getenv("WRIT_ADVERSARY_LONG") != "" }

// TestPusher: who may push, and who may not, against the built-in remote and what
// evaluates what was pushed. After each attempt the server is ready, has not
// grown, the branch is where it was, and an honest push goes through.
func TestPusher(t *testing.T) {
	c := start(t)
	g := c.clone()
	g.declares(map[string]string{"a.yaml": configMap("honest", "0")})
	report(t, "who has no right in Git", c.withoutRight(g))
	report(t, "who pushes, to the remote", g.unharmed(c.toRemote(g)))
	report(t, "who pushes, to what evaluates it", g.unharmed(c.toRender(g)))
}

func configMap(name, value string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, namespace: default}\ndata: {k: %q}\n", name, value)
}

// unharmed puts behind each attempt what must hold then.
func (g *clone) unharmed(attempts []attempt) []attempt {
	for i, a := range attempts {
		attempts[i].try = func() (string, bool) {
			branch, before := g.branch(), rss("VmRSS:")
			_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) // the peak is that of now
			began := time.Now()
			said, ok := a.try()
			took := time.Since(began)
			grown := max(0, rss("VmHWM:")-before)
			said = fmt.Sprintf("[%.1f s, +%d MiB, %d MiB] ", took.Seconds(), grown>>20, rss("VmRSS:")>>20) + said
			if grown > mostRSS {
				g.c.Errorf("%s: the server has grown by %d MiB", a.what, grown>>20)
			}
			if code, text := g.c.asAdmin().ask("GET", "/readyz", ""); code != http.StatusOK {
				g.c.Errorf("%s: then the server is not ready: %s", a.what, text)
			}
			if now := g.branch(); now != branch && a.want == refused {
				g.c.Errorf("%s: then the branch is at %s, not %s", a.what, now, branch)
			}
			g.n++
			sha := g.commit(map[string]string{"a.yaml": configMap("honest", strconv.Itoa(g.n))})
			if out, ok := g.push(pusherToken); !ok {
				g.c.Errorf("%s: then an honest push of %s is refused: %s", a.what, sha, out)
			}
			return said, ok
		}
	}
	return attempts
}

// branch is where main is.
func (g *clone) branch() string {
	g.c.Helper()
	return g.git(as(pusherToken, "ls-remote", "origin", "refs/heads/main")...)
}

// rss is a number of this process, in bytes: the server is in it.
func rss(field string) int64 {
	b, _ := os.ReadFile("/proc/self/status") // 0 where there is none
	_, rest, _ := strings.Cut(string(b), field)
	kib, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	n, _ := strconv.ParseInt(kib, 10, 64)
	return n << 10
}

// defaultToken is that of each pod that names no account.
func (c *target) defaultToken(namespace string) string {
	c.Helper()
	var token string
	c.soon("a token of the default account of "+namespace, func() bool {
		r, err := c.admin.CoreV1().ServiceAccounts(namespace).CreateToken(c.Context(), "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
		if err == nil {
			token = r.Status.Token
		}
		return err == nil
	})
	return token
}

func (c *target) withoutRight(g *clone) []attempt {
	var out []attempt
	head := g.git("rev-parse", "HEAD")
	for who, token := range map[string]string{"a stranger": strangerToken, "a pod": c.defaultToken("default"), "a machine that joins": joinToken} {
		a := c.bearer(token)
		out = append(out,
			attempt{who + " clones", refused, func() (string, bool) {
				said, err := g.tryGit(as(token, "ls-remote", "origin")...)
				return said, err == nil
			}},
			attempt{who + " fetches a commit whose name it knows", refused, func() (string, bool) {
				code, text := a.send("git-upload-pack", strings.NewReader(pkt("want "+head+" ofs-delta\n")+"0000"+pkt("done\n")))
				return text, code == http.StatusOK
			}},
			a.does(who+" asks for the refs", refused, "GET", remotePath+"/info/refs?service=git-upload-pack", "", ""),
			a.does(who+" asks for the refs, to push", refused, "GET", remotePath+"/info/refs?service=git-receive-pack", "", ""),
			attempt{who + " pushes", refused, func() (string, bool) {
				p := newPacker()
				sha := p.commit(p.add(trees, []byte(entry("100644", "f", p.add(blobs, []byte("x"))))))
				return a.pushes("refs/heads/evil", sha, p.done())
			}},
			a.does(who+" fetches as a server", refused, "GET", "/replica"+remotePath+"/info/refs?service=git-upload-pack", "", ""),
			a.does(who+" reads a file as if there were no protocol", refused, "GET", remotePath+"/HEAD", "", ""),
		)
	}
	return append(out, attempt{"a pusher clones", allowed, func() (string, bool) {
		said, err := g.tryGit(as(pusherToken, "ls-remote", "origin")...)
		return said, err == nil && strings.Contains(said, head)
	}})
}

func (c *target) toRemote(g *clone) []attempt {
	a := c.bearer(pusherToken)
	packed := func(what string, want result, make func(p *packer) (sha string)) attempt {
		return attempt{what, want, func() (string, bool) {
			p := newPacker()
			sha := make(p)
			return a.pushes("refs/heads/"+strconv.FormatUint(uint64(p.count), 36)+"-"+sha[:6], sha, p.done())
		}}
	}
	names := func(what string, of ...string) packedTree {
		return packedTree{what, func(blob string) (entries string) {
			for _, n := range of {
				entries += entry("100644", n, blob)
			}
			return entries
		}}
	}
	var out []attempt
	for _, t := range []packedTree{names(".git", ".git"), names(".GIT", ".GIT"), names("..", ".."), names("a name with a slash", "../x"), names("twice the same name", "a", "a")} {
		out = append(out, packed("a file "+t.what, refused, func(p *packer) string {
			return p.commit(p.add(trees, []byte(t.entries(p.add(blobs, []byte("x"))))))
		}))
	}
	command := func(ref string) string {
		return pkt(zeroSHA + " " + g.git("rev-parse", "HEAD") + " " + ref + "\x00report-status\n")
	}
	for _, ref := range []string{"refs/heads/../../HEAD", "HEAD", "refs/heads/a.lock", "refs/heads/a\x01b", "refs/heads/caf\xe9", "refs/heads/\xff\xfe", "refs/replace/" + zeroSHA, "refs/heads/" + strings.Repeat("x", 4000), "refs/heads/main/x", "refs/remotes/origin/x", "objects/info/alternates"} {
		out = append(out, attempt{fmt.Sprintf("a ref %.24q", ref), refused, func() (string, bool) {
			_, text := a.send("git-receive-pack", strings.NewReader(command(ref)+"0000"+emptyPack()))
			return text, strings.Contains(text, "ok refs/") || strings.Contains(text, "ok "+ref)
		}})
	}
	if long() {
		out = append(out,
			packed("a million folders in each other", refused, func(p *packer) string {
				h := p.add(trees, []byte(entry("100644", "f", p.add(blobs, []byte("x")))))
				for range 1_000_000 {
					h = p.add(trees, []byte(entry("40000", "d", h)))
				}
				return p.commit(h)
			}),
			packed("100 files of 60 MiB, in six megabytes", refused, func(p *packer) string {
				entries := ""
				for i := range 100 {
					entries += entry("100644", fmt.Sprintf("f%03d", i), p.zeros(60<<20+i))
				}
				return p.commit(p.add(trees, []byte(entries)))
			}),
		)
	}
	return append(out,
		packed("a commit of files", allowed, func(p *packer) string {
			return p.commit(p.add(trees, []byte(entry("100644", "f", p.add(blobs, []byte("x"))))))
		}),
		attempt{"a ref of letters that are not ASCII", allowed, func() (string, bool) {
			_, text := a.send("git-receive-pack", strings.NewReader(command("refs/heads/ümlaut")+"0000"+emptyPack()))
			return text, strings.Contains(text, "ok refs/heads/ümlaut")
		}},
		packed("100,000 folders in each other", refused, func(p *packer) string {
			h := p.add(trees, []byte(entry("100644", "f", p.add(blobs, []byte("x")))))
			for range 100_000 {
				h = p.add(trees, []byte(entry("40000", "d", h)))
			}
			return p.commit(h)
		}),
		packed("a file of 100 MiB, in 100 KiB", refused, func(p *packer) string {
			return p.commit(p.add(trees, []byte(entry("100644", "f", p.zeros(100<<20)))))
		}),
		packed("two million empty files, in 18 MB", refused, func(p *packer) string {
			one := newPacker()
			one.add(blobs, nil)
			for range 2_000_000 {
				p.Write(one.Bytes()[12:])
			}
			p.count = 2_000_000
			return p.commit(p.add(trees, nil))
		}),
		attempt{"300 MiB of zeros that are gzip", refused, func() (string, bool) {
			var b bytes.Buffer
			z := gzip.NewWriter(&b)
			_, _ = io.WriteString(z, command("refs/heads/z")+"0000PACK\x00\x00\x00\x02\x00\x00\x00\x01")
			_, _ = io.Copy(z, io.LimitReader(zeros{}, 300<<20))
			_ = z.Close()
			_, text := a.send("git-receive-pack", &b, "Content-Encoding", "gzip")
			return text, strings.Contains(text, "ok refs/")
		}},
		attempt{"100,000 refs at once", refused, func() (string, bool) {
			var b strings.Builder
			sha := g.git("rev-parse", "HEAD")
			b.WriteString(command("refs/heads/m"))
			for i := range 100_000 {
				b.WriteString(pkt(zeroSHA + " " + sha + " refs/heads/m" + strconv.Itoa(i) + "\n"))
			}
			_, text := a.send("git-receive-pack", strings.NewReader(b.String()+"0000"+emptyPack()))
			return text, strings.Contains(text, "ok refs/")
		}},
		attempt{"deletes the branch", refused, func() (string, bool) {
			said, err := g.tryGit(as(pusherToken, "push", "-q", "origin", ":main")...)
			return said, err == nil
		}},
		attempt{"rewrites the branch", refused, func() (string, bool) {
			tree := g.git("rev-parse", "HEAD^{tree}")
			sha := g.git("commit-tree", "-m", "all new", tree)
			said, err := g.tryGit(as(pusherToken, "push", "-q", "--force", "origin", sha+":refs/heads/main")...)
			return said, err == nil
		}},
		attempt{"a commit that was rewritten, by its name", refused, func() (string, bool) {
			tree := g.git("rev-parse", "HEAD^{tree}")
			first, second := g.git("commit-tree", "-m", "the password is x", tree), g.git("commit-tree", "-m", "no password", tree)
			g.git(as(pusherToken, "push", "-q", "origin", first+":refs/heads/side")...)
			g.git(as(pusherToken, "push", "-q", "--force", "origin", second+":refs/heads/side")...)
			ask := func(sha string) (int, string) {
				return a.send("git-upload-pack", strings.NewReader(pkt("want "+sha+" ofs-delta\n")+"0000"+pkt("done\n")))
			}
			if code, text := ask(second); code != http.StatusOK || !strings.Contains(text, "PACK") {
				c.Errorf("the commit that is there is not fetched: %s", text)
			}
			_, text := ask(first)
			return text, strings.Contains(text, "PACK")
		}},
	)
}

type packedTree struct {
	what    string
	entries func(blob string) string
}

// emptyPack is one without objects: all of them are there.
func emptyPack() string { return string(newPacker().done()) }

// toRender are pushes to the branch that the cluster follows.
func (c *target) toRender(g *clone) []attempt {
	var called atomic.Int32
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		called.Add(1)
		fmt.Fprint(w, "stolen")
	}))
	c.Cleanup(elsewhere.Close)
	_, port, _ := net.SplitHostPort(elsewhere.Listener.Addr().String())
	url := "http://127.0.0.1:" + port + "/x.yaml"
	pushed := func(what string, want result, files map[string]string) attempt {
		return attempt{what, want, func() (string, bool) {
			called.Store(0)
			g.commit(files)
			said, ok := g.push(pusherToken)
			if n := called.Load(); n > 0 {
				return fmt.Sprintf("%d calls to %s; %s", n, url, said), true
			}
			if ok && want == refused { // the next attempts begin where this one did
				g.git("revert", "--no-edit", "HEAD")
				g.git(as(pusherToken, "push", "-q", "origin", "main")...)
			}
			return said, ok
		}}
	}
	kustomization := func(text string) map[string]string { return map[string]string{"evil/kustomization.yaml": text} }
	release := func(spec string) string {
		return "apiVersion: writ.dev/v1alpha1\nkind: HelmRelease\nmetadata: {name: evil, namespace: default}\nspec:\n" + spec
	}
	chart := func(template string) map[string]string {
		return map[string]string{"evil/release.yaml": release("  chart: ../charts/evil\n"), "charts/evil/Chart.yaml": "apiVersion: v2\nname: evil\nversion: 0.1.0\n", "charts/evil/templates/a.yaml": template}
	}
	const cm = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: evil, namespace: default}\ndata: "
	alias := "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n"
	for i := range 12 {
		alias += fmt.Sprintf("a%d: &a%d [%s*a%d]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d,", i), 9), i)
	}
	out := []attempt{
		pushed("a chart that is none of that", allowed, chart(cm+"{k: '{{ .Release.Name }}'}\n")),
		pushed("a resource elsewhere", refused, kustomization("resources: ["+url+"]\n")),
		pushed("a base in another repository", refused, kustomization("resources: ['git::"+url+"?ref=v1']\n")),
		pushed("FILES of a generator elsewhere", refused, kustomization("configMapGenerator: [{name: evil, FILES: ['a="+url+"']}]\n")),
		pushed("files of a generator elsewhere", refused, kustomization("configMapGenerator: [{name: evil, files: ['a="+url+"']}]\n")),
		pushed("a chart elsewhere", refused, kustomization("helmCharts: [{name: evil, repo: '"+url+"'}]\n")),
		pushed("a function of kustomize that runs a program", refused, map[string]string{"evil/kustomization.yaml": "generators: [g.yaml]\n",
			"evil/g.yaml": "apiVersion: x/v1\nkind: G\nmetadata:\n  name: g\n  annotations: {config.kubernetes.io/function: 'exec: {path: /bin/id}'}\n"}),
		pushed("a file of the server, by kustomize", refused, kustomization("configMapGenerator: [{name: evil, files: [../../../../../../../../etc/passwd]}]\n")),
		pushed("the same in full", refused, kustomization("resources: [/etc/passwd]\n")),
		pushed("the same by a link", refused, map[string]string{"evil/passwd": "link:/etc/passwd", "evil/kustomization.yaml": "configMapGenerator: [{name: evil, files: [passwd]}]\n"}),
		pushed("a manifest that is a link out", refused, map[string]string{"evil.yaml": "link:../../../../etc/passwd"}),
		pushed("values of a chart outside", refused, map[string]string{"evil/release.yaml": release("  chart: ../charts/evil\n  valuesFiles: [../../../../../../etc/passwd]\n"),
			"charts/evil/Chart.yaml": "apiVersion: v2\nname: evil\nversion: 0.1.0\n"}),
		pushed("a chart outside", refused, map[string]string{"evil/release.yaml": release("  chart: ../../../../../../etc\n")}),
		pushed("a template that reads a file of the server", refused, chart(cm+"{k: {{ required \"nothing\" (.Files.Get \"../../../../../etc/passwd\") | quote }}}\n")),
		pushed("a template that calls a host", refused, chart(cm+"{k: {{ required \"nothing\" (getHostByName \"localhost\") | quote }}}\n")),
		pushed("a template that reads the cluster", refused, chart(cm+"{k: {{ required \"nothing\" (lookup \"v1\" \"Secret\" \"kube-system\" \"\").items | toJson | quote }}}\n")),
		pushed("a chart that uses up memory", refused, chart(cm+"{k: '{{ repeat 2000000000 \"xxxxxxxxxxxxxxxx\" | len }}'}\n")),
		pushed("a chart that is many of itself", refused, chart("{{- define \"a\" }}{{ include \"a\" . }}{{ include \"a\" . }}{{ end }}"+cm+"{k: '{{ include \"a\" . }}'}\n")),
		pushed("YAML of 10^13 aliases", refused, map[string]string{"evil.yaml": alias + cm + "{}\n"}),
		pushed("YAML in itself", refused, map[string]string{"evil.yaml": "a: &a [*a]\n" + cm + "{}\n"}),
		pushed("YAML 100,000 lists deep", refused, map[string]string{"evil.yaml": strings.Repeat("[", 100_000) + "\n"}),
		{"a module of another repository", refused, func() (string, bool) {
			sha := g.git("rev-parse", "HEAD")
			g.git("update-index", "--add", "--cacheinfo", "160000,"+sha+",module")
			g.git("commit", "-q", "-m", "Add a module")
			return g.push(pusherToken)
		}},
	}
	bomb := "package policy\nimport \"list\"\nrules: \"bomb\": {\n\tmatch: kind: \"ConfigMap\"\n\tmessage: \"x\"\n\trequire: data: k: string\n\t_n: [for a in list.Range(0, 100000, 1) for b in list.Range(0, 100000, 1) {a * b}]\n\trequire: data: n?: len(_n)\n}\n"
	if long() {
		out = append(out,
			pushed("CUE of 10^9 objects", refused, map[string]string{"evil/x.cue": "package evil\nimport \"list\"\nmaps: [for a in list.Range(0, 1000000000, 1) {apiVersion: \"v1\", kind: \"ConfigMap\", metadata: name: \"a\\(a)\"}]\n"}),
			pushed("a policy of 10^10 steps", refused, map[string]string{"policy/evil.cue": bomb}),
			pushed("a chart that uses up time", refused, chart("{{ range $a := until 100000 }}{{ range until 100000 }}{{ end }}{{ end }}"+cm+"{}\n")))
	}
	return out
}
