package trust

import (
	"strings"
	"testing"
)

// The examples are those of the forges' documentation of CODEOWNERS.
func TestPattern(t *testing.T) {
	for _, c := range []struct {
		pattern, yes, no string
	}{
		{"*", "a a/b .writ/trust.yaml", ""},
		{"*.js", "a.js x/y/a.js dir.js/a", "a.jsx"},
		{"/build/logs/", "build/logs/a build/logs/x/y", "x/build/logs/a build/logs"},
		{"docs/*", "docs/getting-started.md", "docs/build-app/troubleshooting.md x/docs/a"},
		{"apps/", "apps/a x/apps/b/c", "apps xapps/a"},
		{"/docs/", "docs/a docs/b/c", "x/docs/a"},
		{"**/logs", "logs/a build/logs/a deep/er/logs/x/y logs", "blogs/a"},
		{"/apps/**/secret.yaml", "apps/secret.yaml apps/a/secret.yaml apps/a/b/secret.yaml", "secret.yaml apps/secret.yml"},
		{"/apps/**", "apps/a apps/b/c", "apps"},
		{"/apps/github", "apps/github apps/github/a", "apps/githubx x/apps/github"},
		{"a?c", "abc x/abc", "ac a/c abbc"},
		{"a.b", "a.b", "axb"},
		{"/a+(b)$", "a+(b)$", "aab"},
		{"/*", "a", "a/b"},
	} {
		p, err := parsePattern(c.pattern)
		if err != nil {
			t.Fatalf("%s: %v", c.pattern, err)
		}
		for _, path := range strings.Fields(c.yes) {
			if !p.match(path) {
				t.Errorf("%s does not match %s", c.pattern, path)
			}
		}
		for _, path := range strings.Fields(c.no) {
			if p.match(path) {
				t.Errorf("%s matches %s", c.pattern, path)
			}
		}
	}
	for _, bad := range []string{"", "/", "!a", "[ab]", `a\ b`, "a//b", "../x", "a/./b", strings.Repeat("a", 2000)} {
		if _, err := parsePattern(bad); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func TestWildcard(t *testing.T) {
	for _, c := range []struct {
		pattern, text string
		want          bool
	}{
		{"*", "", true}, {"", "", true}, {"", "a", false}, {"a*", "abc", true}, {"*c", "abc", true}, {"a*c", "abcbc", true},
		{"a*c", "abcb", false}, {"?", "a", true}, {"?", "", false}, {"*@example.org", "a@example.org", true}, {"*@example.org", "a@example.org.evil", false},
		{"shop-*", "shop-", true}, {"a*b*c", "a1b2b3c", true}, {"*a*b", "xaxbx", false},
	} {
		if got := wildcard(c.pattern, c.text); got != c.want {
			t.Errorf("wildcard(%q, %q) = %v", c.pattern, c.text, got)
		}
	}
	if wildcard(strings.Repeat("*a", 500)+"b", strings.Repeat("a", 10_000)) {
		t.Error("matches")
	}
}
