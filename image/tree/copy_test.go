package tree

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func parse(t *testing.T, text string) *List {
	t.Helper()
	l, err := ParseList("keep", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func source(t *testing.T) *Tree {
	return build(t, "p", "etc/conf = x", "usr/bin/one", "usr/bin/two", "usr/bin/alias -> two", "usr/lib/d/a.rules", "usr/lib/d/b.rules", "usr/lib/d/sub/c",
		"usr/lib/x -> ../bin/alias", "mask -> /dev/null", "bad -> /opt/none", "loop -> pool", "pool -> loop", `usr/lib/a\x2db.mount`)
}

func TestCopy(t *testing.T) {
	for name, c := range map[string]struct {
		keep string
		want string // files and links
	}{
		"a file":              {"# c\n[s]\nusr/bin/one # why\n", "usr/bin/one"},
		"stars stop at slash": {"usr/lib/*\n", `usr/bin/alias -> two|usr/bin/two|usr/lib/a\x2db.mount|usr/lib/x -> ../bin/alias`},
		"a backslash":         {`usr/lib/a\\x2db.mount`, `usr/lib/a\x2db.mount`},
		"a directory":         {"usr/lib/d/\n", "usr/lib/d/a.rules|usr/lib/d/b.rules|usr/lib/d/sub/c"},
		"directories":         {"usr/*/d/\n", "usr/lib/d/a.rules|usr/lib/d/b.rules|usr/lib/d/sub/c"},
		"not these":           {"usr/lib/d/\n!usr/lib/d/*.rules\n", "usr/lib/d/sub/c"},
		"not, then again":     {"usr/lib/d/\n!usr/lib/d/*.rules\nusr/lib/d/b.rules\n", "usr/lib/d/b.rules|usr/lib/d/sub/c"},
		"links":               {"usr/lib/x\n", "usr/bin/alias -> two|usr/bin/two|usr/lib/x -> ../bin/alias"},
		"a mask":              {"mask\n", "mask -> /dev/null"},
		"perhaps":             {"?usr/bin/none\nusr/bin/one\n", "usr/bin/one"},
	} {
		t.Run(name, func(t *testing.T) {
			got := New()
			if err := got.Copy(source(t), parse(t, c.keep)); err != nil {
				t.Fatal(err)
			}
			var files []string
			for _, at := range list(got) {
				if !strings.HasSuffix(at, "/") {
					files = append(files, at)
				}
			}
			if d := cmp.Diff(c.want, strings.Join(files, "|")); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestCopyRefuses(t *testing.T) {
	for name, c := range map[string]struct{ keep, want string }{
		"all that match nothing": {"usr/bin/one\nusr/bin/conf\nusr/*/none\n", "keep:2: no package has usr/bin/conf; p has etc/conf\nkeep:3: no package has usr/*/none"},
		"a not for nothing":      {"usr/bin/one\n!usr/bin/two\n", "keep:2: usr/bin/two takes nothing away: no line above takes it"},
		"a link to nothing":      {"usr/bin/one\nbad\n", "keep:2: bad leads to opt/none, which no package has"},
		"a directory":            {"usr/lib/d\n", "keep:1: usr/lib/d is a directory: write it with a slash at its end"},
		"a circle":               {"loop\n", "keep:1: loop: its links lead in a circle"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := New().Copy(source(t), parse(t, c.keep)); err == nil || err.Error() != c.want {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
	for in, want := range map[string]string{
		"ok\n/etc/x\n":                       `keep:2: "/etc/x" is no path in a tree: write it without a leading slash`,
		"a/../b\n":                           "keep:1: ",
		"[a\n":                               "keep:1: [a is no pattern",
		"!\n":                                "keep:1: ",
		strings.Repeat("x\n", maxPatterns+1): "more than 5000 patterns",
		"x\n" + strings.Repeat("x", 100_000): "keep:2: ",
	} {
		if _, err := ParseList("keep", strings.NewReader(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %v, want %q", in, err, want)
		}
	}
}

func FuzzList(f *testing.F) {
	f.Add("[a]\nusr/bin/*\n!usr/bin/one\n?x/\n")
	f.Fuzz(func(t *testing.T, in string) {
		l, err := ParseList("keep", strings.NewReader(in))
		if err != nil {
			return
		}
		src := build(t, "p", "usr/bin/one", "usr/bin/two", "x/y")
		got := New()
		if got.Copy(src, l) != nil {
			return
		}
		for at := range got.All() {
			if _, ok := src.Get(at); !ok {
				t.Errorf("%s is not in the source", at)
			}
		}
	})
}
