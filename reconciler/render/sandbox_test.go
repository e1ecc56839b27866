package render

import (
	"context"
	"os"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	if ServeChild() {
		return
	}
	os.Exit(m.Run())
}

func sandbox(t testing.TB) *Sandbox {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s := NewSandbox(self)
	t.Cleanup(s.Close)
	return s
}

// TestSandboxIsTheSame: a child makes of a package what this process makes.
func TestSandboxIsTheSame(t *testing.T) {
	s := sandbox(t)
	for _, name := range []string{"cue.txtar", "cuebad.txtar"} {
		tree := treeOf(t, name)
		if got, want := describe(t, tree, Options{Sandbox: s}), describe(t, tree); got != want {
			t.Errorf("%s in a child:\n%s\nhere:\n%s", name, got, want)
		}
	}
	tree := memTree{"p/x.cue": "package p\nv: string @tag(v)\ncm: {apiVersion: \"v1\", kind: \"ConfigMap\", metadata: name: v}\n"}
	vars := map[string]string{"v": "given"}
	if got, want := describe(t, tree, Options{Sandbox: s, Variables: vars}), describe(t, tree, Options{Variables: vars}); got != want {
		t.Errorf("with variables:\n%s\nhere:\n%s", got, want)
	}
}

// TestSandboxBounds: what never ends, or takes all memory, ends, and the next
// package is evaluated.
func TestSandboxBounds(t *testing.T) {
	s := sandbox(t)
	good := memTree{"p/x.cue": "package p\ncm: {apiVersion: \"v1\", kind: \"ConfigMap\", metadata: name: \"x\"}\n"}
	manifests(t, good, Options{Sandbox: s})
	for _, c := range []struct{ text, rule string }{{greedy(), "TooLarge"}, {endless, "TooSlow"}} {
		units, _, err := Scan(memTree{"p/x.cue": c.text}, Options{Sandbox: s})
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		out, err := Render(context.Background(), &units[0])
		// At its bound of memory a child is slow, and its time may end first.
		if err != nil || len(out.Findings) != 1 || out.Findings[0].Rule != c.rule && out.Findings[0].Rule != "TooSlow" {
			t.Fatal(err, out)
		}
		took := time.Since(begin)
		t.Logf("%s: %s", took, out.Findings[0].Message)
		if took > evalTimeout+slower*10*time.Second {
			t.Errorf("took %s", took)
		}
	}
	if s.peak == 0 || s.peak > childMemory+childMemory/4 {
		t.Errorf("a child had %s", megabytes(s.peak))
	}
	if len(manifests(t, good, Options{Sandbox: s})) != 1 {
		t.Error("the next package is not evaluated")
	}
}

func BenchmarkSandbox(b *testing.B) {
	good := memTree{"p/x.cue": "package p\ncm: {apiVersion: \"v1\", kind: \"ConfigMap\", metadata: name: \"x\"}\n"}
	for _, c := range []struct {
		name string
		o    func() Options
	}{
		{"here", func() Options { return Options{} }},
		{"child", func() Options { return Options{Sandbox: sandbox(b)} }},
	} {
		b.Run(c.name, func(b *testing.B) {
			o := c.o()
			for b.Loop() {
				manifests(b, good, o)
			}
		})
	}
	b.Run("start", func(b *testing.B) {
		for b.Loop() {
			s := sandbox(b)
			manifests(b, good, Options{Sandbox: s})
			s.Close()
		}
	})
}
