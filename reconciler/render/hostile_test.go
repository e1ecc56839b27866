package render

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestHostile: input that is made to hurt costs a bounded time and memory, and
// says what is wrong.
func TestHostile(t *testing.T) {
	const mb = 1 << 20
	for name, tt := range map[string]struct{ file, content, rule string }{
		"deep list":      {"a.yaml", strings.Repeat("[", 5000) + strings.Repeat("]", 5000), "TooDeep"},
		"deep block":     {"a.yaml", deepBlock(300), "TooDeep"},
		"deep json":      {"a.json", strings.Repeat("[", 5000) + strings.Repeat("]", 5000), "TooDeep"},
		"deeper json":    {"a.json", strings.Repeat(`{"a":`, mb), "TooDeep"},
		"many values":    {"a.yaml", "a: [" + strings.Repeat("1,", 2*mb) + "]", "TooLarge"},
		"long string":    {"a.yaml", "a: \"" + strings.Repeat("x", 9*mb) + "\"", "MissingKind"},
		"wide line":      {"a.yaml", "a: [" + strings.Repeat("ä,", 200_000) + "]", "MissingKind"},
		"11 MB":          {"a.yaml", strings.Repeat("a", 11*mb), "TooLarge"},
		"zeros":          {"a.yaml", strings.Repeat("\x00", mb), "Syntax"},
		"latin 1":        {"a.yaml", "a: gr\xfc\xdfe", "Syntax"},
		"utf-16":         {"a.yaml", "\xff\xfea\x00:\x00", "Syntax"},
		"nothing ends":   {"a.json", strings.Repeat(`["`, 100), "Syntax"},
		"long alias":     {"a.yaml", "a: &a \"" + strings.Repeat("x", mb) + "\"\nb: [" + strings.Repeat("*a,", 40_000) + "]", "TooLarge"},
		"wide merge":     {"a.yaml", "<<: {" + manyKeys(100_000) + "}", "MissingKind"},
		"wide secret":    {"a.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: x, uid: y}\nstringData: {" + manyKeys(60_000) + "}\ndata: {" + manyKeys(60_000) + "}", "Forbidden"},
		"many documents": {"a.yaml", strings.Repeat("---\nx: 1\n", 100_000), "MissingKind"},
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			begin := time.Now()
			units, _, err := Scan(memTree{tt.file: tt.content})
			if err != nil {
				t.Fatal(err)
			}
			out, err := Render(context.Background(), &units[0])
			if err != nil {
				t.Fatal(err)
			}
			runtime.ReadMemStats(&after)
			if took := time.Since(begin); took > slower*5*time.Second {
				t.Errorf("took %s", took)
			}
			if n := after.TotalAlloc - before.TotalAlloc; n > 700*mb {
				t.Errorf("allocated %d MB", n/mb)
			}
			if len(out.Findings) == 0 || len(out.Findings) > maxFindings || out.Findings[0].Rule != tt.rule {
				t.Errorf("%d findings: %v", len(out.Findings), out.Findings[:min(2, len(out.Findings))])
			}
		})
	}
}

func manyKeys(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "k%d: \"\", ", i)
	}
	return b.String()
}

func deepBlock(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return b.String()
}

// TestLargeFilesAreNotRead: what Git says of the size is enough.
func TestLargeFilesAreNotRead(t *testing.T) {
	u := Unit{Path: "a.yaml", file: &File{Path: "a.yaml", Size: 100 << 20, Open: func() (io.ReadCloser, error) {
		t.Error("opened")
		return io.NopCloser(strings.NewReader("")), nil
	}}}
	out, err := Render(context.Background(), &u)
	if err != nil || len(out.Findings) != 1 || out.Findings[0].Rule != "TooLarge" {
		t.Error(err, out)
	}
}
