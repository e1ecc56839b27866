package receive

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing/filemode"
)

func TestPackets(t *testing.T) {
	p := newPacketReader(strings.NewReader("0006a\n000000040003"))
	steps := []struct {
		line  string
		flush bool
		err   error
	}{{"a", false, nil}, {"", true, nil}, {"", false, nil}, {"", false, errPacket}, {"", false, io.EOF}}
	for i, want := range steps {
		line, flush, err := p.text()
		if line != want.line || flush != want.flush && err == nil || !errors.Is(err, want.err) {
			t.Fatalf("step %d: %q %t %v, want %+v", i, line, flush, err, want)
		}
	}
}

func TestCheckRefName(t *testing.T) {
	good := []string{"refs/heads/main", "refs/heads/a/b-c_d.e", "refs/tags/v1.0", "refs/heads/ümlaut", "refs/notes/commits"}
	bad := []string{"", "main", "HEAD", "refs/heads", "refs/heads/", "refs/heads//a", "refs/heads/a/", "refs/heads/.a", "refs/heads/a.lock",
		"refs/heads/a.lock/b", "refs/heads/a..b", "refs/heads/a b", "refs/heads/a\nb", "refs/heads/a~1", "refs/heads/a@{1}", "refs/heads/a.",
		"refs/remotes/origin/a", "refs/heads/../../x", "refs/heads/a\\b", "refs/heads/" + strings.Repeat("x", 300),
		"refs/heads/caf\xe9", "refs/tags/\xc3\x28", "refs/heads/\xed\xa0\x80"}
	for _, name := range good {
		if reason := checkRefName(name); reason != "" {
			t.Errorf("%q: %s", name, reason)
		}
	}
	for _, name := range bad {
		if checkRefName(name) == "" {
			t.Errorf("%q is allowed", name)
		}
	}
}

func TestRefuse(t *testing.T) {
	one, two := strings.Repeat("1", 40), strings.Repeat("2", 40)
	now := map[string]string{"refs/heads/main": one, "refs/heads/side": two, "refs/heads/a/b": one, "refs/heads/caf\xe9": one}
	tests := []struct {
		ref, old, sha, want string
	}{
		{"refs/heads/main", one, two, ""},
		{"refs/heads/main", two, one, "fetch first"},
		{"refs/heads/main", zeroSHA, two, "fetch first"},
		{"refs/heads/main", one, zeroSHA, "the cluster follows this branch; it cannot be deleted"},
		{"refs/heads/side", two, zeroSHA, ""},
		{"refs/heads/new", zeroSHA, one, ""},
		{"refs/heads/new", one, two, "fetch first"},
		{"refs/heads/new", one, zeroSHA, "there is no such ref"},
		{"refs/heads/a", zeroSHA, one, "clashes with refs/heads/a/b"},
		{"refs/heads/main/x", zeroSHA, one, "clashes with refs/heads/main"},
		{"refs/heads/x\xff", zeroSHA, one, notUTF8},
		{"refs/heads/caf\xe9", one, two, notUTF8},
		{"refs/heads/caf\xe9", one, zeroSHA, ""},
	}
	for _, tt := range tests {
		c := command{ref: ref{tt.ref, tt.sha}, old: tt.old}
		if got := New(Config{}).refuse(c, now, rights{push: true}); got != tt.want {
			t.Errorf("%s %.4s..%.4s: %q, want %q", tt.ref, tt.old, tt.sha, got, tt.want)
		}
	}
}

func TestParseTree(t *testing.T) {
	hash := strings.Repeat("\x01", 20)
	good, err := parseTree([]byte("100644 a\x00" + hash + "40000 b\x00" + hash))
	if err != nil || len(good) != 2 || good[1].name != "b" || good[1].mode != filemode.Dir {
		t.Errorf("%v %v", good, err)
	}
	for _, bad := range []string{"100644 a", "100644\x00" + hash, "100644 ..\x00" + hash, "100644 .GIT\x00" + hash, "100644 a/b\x00" + hash, "x a\x00" + hash, "100644 a\x00short"} {
		if got, err := parseTree([]byte(bad)); err == nil {
			t.Errorf("%q: %v", bad, got)
		}
	}
}

func FuzzParseCommands(f *testing.F) {
	one := strings.Repeat("1", 40)
	f.Add(pkt(zeroSHA+" "+one+" refs/heads/x\x00report-status atomic") + pkt(one+" "+zeroSHA+" refs/heads/y\n") + "0000PACK")
	f.Add(pkt("shallow "+one) + "0000")
	f.Fuzz(func(t *testing.T, in string) {
		cmds, caps, err := parseCommands(newPacketReader(strings.NewReader(in)))
		if err != nil && len(cmds) > 0 {
			t.Errorf("%d commands beside %v", len(cmds), err)
		}
		if len(cmds) > 0 && caps == nil {
			t.Error("commands without capabilities")
		}
		for _, c := range cmds {
			if !validSHA.MatchString(c.old) || !validSHA.MatchString(c.sha) || c.creates() && c.deletes() {
				t.Errorf("command %+v", c)
			}
		}
	})
}

// FuzzRefName: a name that comes in is one file within the folder of refs, and
// is the same name after it was kept in each of the ways there are.
func FuzzRefName(f *testing.F) {
	for _, name := range []string{"main", "a/b-c_d.e", "ümlaut", "caf\xe9", "../x", "a/../../../x", "a\x00b", "a\nb", "\ufffd", "a//b", "a/", ".a", "a.lock", "-x", "@", "a\u2028b", "\xff", "<>&"} {
		f.Add("refs/heads/" + name)
	}
	f.Add("refs/tags/v1")
	f.Add("refs/../HEAD")
	one := strings.Repeat("1", 40)
	root := f.TempDir()
	f.Fuzz(func(t *testing.T, name string) {
		cmds, _, err := parseCommands(newPacketReader(strings.NewReader(pkt(zeroSHA+" "+one+" "+name+"\x00atomic") + "0000")))
		if err != nil || len(cmds) != 1 {
			return
		}
		name = cmds[0].name
		if checkRefName(name) != "" {
			return
		}
		if !filepath.IsLocal(name) || filepath.ToSlash(filepath.Clean(name)) != name {
			t.Errorf("%q is no file of its own", name)
		}
		text, err := json.Marshal(map[string]string{name: one})
		if err != nil {
			t.Fatal(err)
		}
		var kept map[string]string
		if err := json.Unmarshal(text, &kept); err != nil || kept[name] != one {
			t.Errorf("%q becomes %q: %v", name, kept, err)
		}
		if err := os.WriteFile(filepath.Join(root, "packed-refs"), []byte(one+" "+name+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		packed := map[string]string{}
		if err := readPackedRefs(root, packed); err != nil || packed[name] != one || len(packed) != 1 {
			t.Errorf("%q is packed as %q: %v", name, packed, err)
		}
	})
}

func FuzzParseUpload(f *testing.F) {
	one := strings.Repeat("1", 40)
	f.Add(pkt("want "+one+" side-band-64k ofs-delta\n") + pkt("shallow "+one) + pkt("deepen 3") + "0000" + pkt("have "+one) + "0000" + pkt("done\n"))
	f.Fuzz(func(t *testing.T, in string) {
		u, err := parseUpload(newPacketReader(strings.NewReader(in)))
		if err == nil && (u.depth < 0 || u.done && len(u.rounds) == 0 || len(u.wants) == 0 && len(u.rounds) > 0) {
			t.Errorf("request %+v", u)
		}
	})
}

func FuzzParseTree(f *testing.F) {
	f.Add([]byte("100644 a\x00" + strings.Repeat("\x01", 20)))
	f.Fuzz(func(t *testing.T, in []byte) {
		entries, err := parseTree(in)
		for _, e := range entries {
			if err != nil || e.name == "" || strings.ContainsAny(e.name, "/\x00") {
				t.Errorf("entry %+v, %v", e, err)
			}
		}
	})
}
