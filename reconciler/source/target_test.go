package source

import (
	"errors"
	"strings"
	"testing"

	"github.com/Masterminds/semver/v3"
)

func TestNewestTag(t *testing.T) {
	tags := []string{"v1.4.0", "v1.4.10", "v1.4.9", "v1.5.0-rc.1", "1.3.0", "v1.4.10+build.2", "v2.0.0", "latest", "v1.4", "release/v1.4.99"}
	for in, want := range map[string]string{
		"~1.4": "v1.4.10+build.2", "1.x": "v1.4.10+build.2", ">=1.0.0-0 <2.0.0-0": "v1.5.0-rc.1", "*": "v2.0.0", "<1.4": "1.3.0", "~3": "", "=1.4.9": "v1.4.9",
	} {
		if got := newest(tags, must(semver.NewConstraint(in))); got != want {
			t.Errorf("newest in %s = %q, want %q", in, got, want)
		}
	}
}

// Tags, ranges and commits are followed alike, read in place and cloned.
func TestTargets(t *testing.T) {
	for _, kind := range []string{"local", "https", "https by SHA", "ssh"} {
		t.Run(kind, func(t *testing.T) {
			w := newWork(t)
			bare := w.bare()
			var shas []string
			for _, v := range []string{"0", "1", "2", "3"} {
				shas = append(shas, w.commit("a.yaml", "a: "+v+"\n"))
			}
			w.git("tag", "v1.0.0", shas[0])
			w.git("tag", "-a", "-m", "one", "v1.0.1", shas[1])
			w.push("main", "--tags")
			var base Config
			switch kind {
			case "local":
				base = Config{URL: bare}
			case "ssh":
				host := serveSSH(t)
				base = Config{URL: "ssh://" + host.addr + bare, Auth: Auth{Username: "git", SSHKey: host.key, KnownHosts: host.known}}
			default:
				if kind == "https by SHA" {
					w.git("-C", bare, "config", "uploadpack.allowReachableSHA1InWant", "true")
					w.git("-C", bare, "config", "uploadpack.allowFilter", "true")
				}
				base = serveHTTP(t, bare).config(t)
			}
			follow := func(change func(*Config)) *Source {
				cfg := base
				cfg.Dir = t.TempDir()
				change(&cfg)
				s := New(cfg)
				t.Cleanup(func() { s.Close() })
				return s
			}
			tag := follow(func(c *Config) { c.Tag = "v1.0.1"; c.Branch = "ignored" })
			one := fetched(t, tag, shas[1])
			if one.Tag != "v1.0.1" || one.TagObject != w.git("rev-parse", "v1.0.1") || one.Rewritten {
				t.Errorf("Commit = %+v", one)
			}
			if raw, err := tag.Raw(one.TagObject); err != nil || !strings.HasPrefix(string(raw), "object "+shas[1]+"\ntype commit\n") {
				t.Errorf("Raw of the tag = %q, %v", raw, err)
			}
			inRange := follow(func(c *Config) { c.SemVer = "~1.0" })
			fetched(t, inRange, shas[1])
			commit := follow(func(c *Config) { c.Commit = strings.ToUpper(shas[2]) })
			if got := files(t, commit, fetched(t, commit, shas[2]).SHA); got[0] != "a.yaml a: 2\n" {
				t.Errorf("files = %q", got)
			}
			fetched(t, commit, shas[2])

			w.git("tag", "v1.0.2", shas[2])
			w.git("tag", "-f", "-a", "-m", "moved", "v1.0.1", shas[3])
			w.push("--force", "--tags")
			if c := fetched(t, tag, shas[3]); !c.Rewritten {
				t.Error("Rewritten = false after the tag was moved")
			}
			if c := fetched(t, inRange, shas[2]); c.Rewritten || c.Tag != "v1.0.2" || c.TagObject != "" {
				t.Errorf("Commit = %+v", c)
			}
			w.git("checkout", "-q", "--orphan", "lost")
			lost := w.commit("b.yaml", "b\n")
			w.push("lost:refs/heads/lost")
			w.push(":refs/heads/lost")
			fails(t, follow(func(c *Config) { c.Commit = lost }), ErrNoCommit, "is in no branch or tag")
			fails(t, follow(func(c *Config) { c.Tag = "v9" }), ErrNoTag, "tag v9 does not exist; there is v1.0.2, v1.0.1, v1.0.0")
			fails(t, follow(func(c *Config) { c.SemVer = "~7" }), ErrNoTag, "range ~7")
			fails(t, follow(func(c *Config) { c.SemVer = "a lot" }), ErrConfig, "no range")
			fails(t, follow(func(c *Config) { c.Commit = "main" }), ErrConfig, "40 hexadecimal digits")
		})
	}
}

func TestTagOfATree(t *testing.T) {
	w := newWork(t)
	w.commit("a.yaml", "a\n")
	w.git("tag", "-a", "-m", "x", "v1", "HEAD^{tree}")
	fails(t, New(Config{URL: w.dir, Tag: "v1"}), ErrNoCommit, "of a tree")
}

// While the remote is away the last good clone serves, also after a restart.
func TestStaleCloneServes(t *testing.T) {
	_, bare, first := served(t)
	web := serveHTTP(t, bare)
	cfg := web.config(t)
	s := New(cfg)
	if _, err := s.Last(t.Context()); !errors.Is(err, ErrMissing) {
		t.Errorf("Last before a fetch = %v", err)
	}
	fetched(t, s, first)
	s.Close()
	web.CloseClientConnections()
	web.Listener.Close()

	s = New(cfg)
	defer s.Close()
	c, err := s.Fetch(t.Context())
	if !errors.Is(err, ErrUnreachable) || c.SHA != first || !c.Stale {
		t.Fatalf("Fetch = %+v, %v", c, err)
	}
	if got := files(t, s, c.SHA); len(got) != 2 {
		t.Errorf("files = %q", got)
	}
	if l, err := s.Last(t.Context()); err != nil || l.SHA != first || !l.Stale {
		t.Errorf("Last = %+v, %v", l, err)
	}
}
