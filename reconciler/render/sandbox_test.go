package render

import (
	"context"
	"fmt"
	"maps"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/writ-os/writ/reconciler/sandbox"
	"github.com/writ-os/writ/schema/v1alpha1"
)

func TestMain(m *testing.M) {
	if sandbox.Serve(Functions()...) {
		return
	}
	os.Exit(m.Run())
}

func guests(t testing.TB) *sandbox.Sandbox {
	t.Helper()
	s := sandbox.New(sandbox.Config{})
	t.Cleanup(s.Close)
	return s
}

// TestSandboxBounds: what never ends, or takes all memory, ends, costs the
// server nothing, and the units beside it are rendered.
func TestSandboxBounds(t *testing.T) {
	s := guests(t)
	good := memTree{"g/x.cue": "package p\ncm: {apiVersion: \"v1\", kind: \"ConfigMap\", metadata: name: \"x\"}\n"}
	maps.Copy(good, chartOf("g", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: y}\n"))
	good["k/kustomization.yaml"] = "configMapGenerator: [{name: z, literals: [a=b]}]\n"
	manifests(t, good, Options{Sandbox: s})
	text := strings.Repeat("0123456789abcdef", 1<<19) // 8 MB
	files := make([]string, 400)
	for i := range files {
		files[i] = fmt.Sprintf("k%d=text.txt", i)
	}
	for name, c := range map[string]struct {
		tree       memTree
		rule, what string
	}{
		"greedy CUE":        {memTree{"p/x.cue": greedy()}, "TooLarge", "the CUE package"},
		"endless CUE":       {memTree{"p/x.cue": endless}, "TooSlow", "the CUE package"},
		"doubling chart":    {chartOf("p", `a: {{ $x := repeat 1024 "a" }}{{ range until 40 }}{{ $x = printf "%s%s" $x $x }}{{ end }}`), "TooLarge", "the Helm release"},
		"ranges in a chart": {chartOf("p", `{{ range until 100000 }}{{ range until 100000 }}{{ repeat 1000 "a" }}{{ end }}{{ end }}`), "TooLarge", "the Helm release"},
		"endless chart":     {chartOf("p", `{{ range until 100000 }}{{ range until 100000 }}{{ range until 100000 }}{{ end }}{{ end }}{{ end }}`), "TooSlow", "the Helm release"},
		"greedy build": {memTree{"p/text.txt": text, "p/kustomization.yaml": "configMapGenerator: [{name: x, files: [" + strings.Join(files, ", ") + "]}]\n"},
			"TooLarge", "the Kustomize build"},
	} {
		t.Run(name, func(t *testing.T) {
			maps.Copy(c.tree, good)
			before, peak := heap(), uint64(0)
			stop := make(chan struct{})
			watched := make(chan struct{})
			go func() {
				defer close(watched)
				for tick := time.NewTicker(50 * time.Millisecond); ; {
					select {
					case <-tick.C:
						peak = max(peak, heap())
					case <-stop:
						return
					}
				}
			}()
			begin := time.Now()
			rest, findings := rendered(t, c.tree, Options{Sandbox: s})
			took := time.Since(begin)
			close(stop)
			<-watched
			// At its bound of memory a child is slow, and its time may end first.
			if len(findings) != 1 || findings[0].Rule != c.rule && findings[0].Rule != "TooSlow" || !strings.HasPrefix(findings[0].Message, c.what) {
				t.Fatal(findings)
			}
			if len(rest) != 3 {
				t.Errorf("beside it: %v", rest)
			}
			t.Logf("%s, heap %d MB and at most %d: %s", took, before>>20, peak>>20, findings[0].Message)
			if took > evalTimeout+slower*10*time.Second {
				t.Errorf("took %s", took)
			}
			if peak > before+160<<20 {
				t.Errorf("the heap of the server grew from %d to %d MB", before>>20, peak>>20)
			}
		})
	}
}

// chartOf is a release of a chart that has one template.
func chartOf(dir, template string) memTree {
	return memTree{
		dir + "/release.yaml":           "apiVersion: writ.dev/v1alpha1\nkind: HelmRelease\nmetadata: {name: x}\nspec: {chart: ./chart}\n",
		dir + "/chart/Chart.yaml":       "apiVersion: v2\nname: x\nversion: 1.0.0\n",
		dir + "/chart/templates/x.yaml": template,
	}
}

// rendered is what becomes of all units of a tree: objects and findings.
func rendered(t *testing.T, tree Tree, o Options) (objects []string, findings []v1alpha1.Finding) {
	t.Helper()
	units, findings, err := Scan(tree, o)
	if err != nil {
		t.Fatal(err)
	}
	for i := range units {
		out, err := Render(context.Background(), &units[i])
		if err != nil {
			t.Fatal(err)
		}
		for j := range out.Manifests {
			objects = append(objects, out.Manifests[j].Object())
		}
		findings = append(findings, out.Findings...)
	}
	return objects, findings
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestAnswerIsBounded: a unit that makes more than the server could hold is
// refused, though the child can hold it, and what came before is kept.
func TestAnswerIsBounded(t *testing.T) {
	object := func(data string) string {
		return `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": ` + data + "}\n"
	}
	for name, data := range map[string]string{
		"values": "[1" + strings.Repeat(",1", maxValues) + "]",
		"texts":  `{"a": "` + strings.Repeat("a", maxTexts) + `"}`,
	} {
		u := &Unit{Path: "x.json", format: formatJSON, child: true}
		out, err := run(&Rendered{unit: u}, []byte(object("{}")+object(data)+object("{}")))
		if err != nil || len(out.Findings) != 1 || out.Findings[0].Rule != "TooLarge" || out.left.made != 1 || len(out.left.w.Data) > 1000 {
			t.Errorf("%s: %v, %v, %d manifests", name, err, out.Findings, out.left.made)
		}
	}
}

func BenchmarkSandbox(b *testing.B) {
	cue := memTree{"p/x.cue": "package p\ncm: {apiVersion: \"v1\", kind: \"ConfigMap\", metadata: name: \"x\"}\n"}
	for name, tree := range map[string]memTree{"cue": cue, "helm": treeOf(b, "helm.txtar"), "kustomize": manyObjects(100)} {
		b.Run(name+"/here", func(b *testing.B) { benchmark(b, tree, Options{}) })
		b.Run(name+"/child", func(b *testing.B) { benchmark(b, tree, Options{Sandbox: guests(b)}) })
	}
	b.Run("start", func(b *testing.B) {
		for b.Loop() {
			s := guests(b)
			manifests(b, cue, Options{Sandbox: s})
			s.Close()
		}
	})
}

func benchmark(b *testing.B, tree memTree, o Options) {
	units, _, err := Scan(tree, o)
	if err != nil || len(units) == 0 {
		b.Fatal(err)
	}
	for b.Loop() {
		if out, err := Render(context.Background(), &units[0]); err != nil || len(out.Findings) > 0 || len(out.Manifests) == 0 {
			b.Fatal(err, out)
		}
	}
}
