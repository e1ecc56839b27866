package receive

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// pushed pushes a pack for a new branch and returns the answer.
func pushed(t *testing.T, s *server, sha string, pack []byte) string {
	t.Helper()
	return post(t, s, receivePack, pkt(zeroSHA+" "+sha+" refs/heads/evil\x00report-status\n")+"0000"+string(pack), nil)
}

// Names that lead out of the folder on any system do not come in.
func TestPathTricksAreRefused(t *testing.T) {
	s, clone := seeded(t)
	write(t, clone, map[string]string{"x": "x"})
	commit(t, clone, "x")
	blob := git(t, clone, "rev-parse", "HEAD:x")
	raw, err := hex.DecodeString(blob)
	if err != nil {
		t.Fatal(err)
	}
	tree := func(entries string) string {
		cmd := exec.Command("git", "hash-object", "-w", "--literally", "-t", "tree", "--stdin")
		cmd.Dir, cmd.Stdin = clone, strings.NewReader(entries)
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(out))
	}
	file := func(name string) string { return "100644 " + name + "\x00" + string(raw) }
	for _, entries := range []string{file(".."), file("."), file(".git"), file(".Git"), file("git~1"), file(".git "), file(".git::$DATA"), file(".g\u200cit"),
		file("a/b"), file(`..\x`), file(strings.Repeat("x", 300)), file("a") + file("a"), file("b") + file("a"), file("a") + "40000 a\x00" + string(raw)} {
		sha := git(t, clone, "commit-tree", "-m", "evil", tree(entries))
		pack := gitBytes(t, clone, strings.Join([]string{sha, git(t, clone, "rev-parse", sha+"^{tree}"), blob}, "\n")+"\n", "pack-objects", "--stdout", "-q")
		if got := pushed(t, s, sha, pack); !strings.Contains(got, "ng refs/heads/evil") || !strings.Contains(got, "unpack read tree") {
			t.Errorf("%.20q: %q", entries, got)
		}
		if s.has(t, sha) {
			t.Errorf("%.20q is there", entries)
		}
	}
	s.verify(t)
}

// However a pack is cut or flipped, nothing of it stays.
func TestDamagedPacksAreRefused(t *testing.T) {
	s, clone := seeded(t)
	write(t, clone, map[string]string{"a": strings.Repeat("line\n", 1000)})
	sha := commit(t, clone, "One")
	pack := gitBytes(t, clone, sha+"\n", "pack-objects", "--revs", "--stdout", "-q")
	for n := range 40 {
		cut := pack[:len(pack)*n/40]
		if got := pushed(t, s, sha, cut); !strings.Contains(got, "ng refs/heads/evil") {
			t.Errorf("cut at %d: %q", len(cut), got)
		}
		flipped := bytes.Clone(pack)
		flipped[len(pack)*n/40] ^= 0x10
		if got := pushed(t, s, sha, flipped); !strings.Contains(got, "ng refs/heads/evil") {
			t.Errorf("flipped at %d: %q", len(pack)*n/40, got)
		}
	}
	s.verify(t)
	if got := pushed(t, s, sha, pack); !strings.Contains(got, "ok refs/heads/evil") {
		t.Errorf("the pack itself: %q", got)
	}
}

// A gigabyte, announced or in a few bytes, costs neither memory nor disk.
func TestGigabyteIsRefused(t *testing.T) {
	if testing.Short() {
		t.Skip("writes a gigabyte")
	}
	s, clone := seeded(t)
	head := git(t, clone, "rev-parse", "HEAD")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	// Type blob, length 1 GiB, and no content.
	announced := append([]byte("PACK\x00\x00\x00\x02\x00\x00\x00\x01"), 0xb0, 0x80, 0x80, 0x80, 0x20)
	if got := pushed(t, s, head, announced); !strings.Contains(got, "ng refs/heads/evil") {
		t.Errorf("%q", got)
	}
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 16<<20 {
		t.Errorf("%d MiB were allocated", grown>>20)
	}
	big := filepath.Join(clone, "big")
	if out, err := exec.Command("truncate", "-s", "1G", big).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	git(t, clone, "config", "core.bigFileThreshold", "1m")
	commit(t, clone, "Big")
	runtime.ReadMemStats(&before)
	out, err := tryGit(t, clone, "push", "origin", "main")
	runtime.ReadMemStats(&after)
	if err == nil || !strings.Contains(out, "push too large: an object of 1024 MiB; one may have 64 MiB") {
		t.Errorf("%v\n%s", err, out)
	}
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 64<<20 {
		t.Errorf("%d MiB were allocated", grown>>20)
	}
	s.verify(t)
}

// Many who push to one branch at once: one of each round wins, the others are
// told what git tells, and nothing is lost.
func TestPushesAtOnce(t *testing.T) {
	s, clone := seeded(t)
	random := rand.New(rand.NewPCG(1, 2))
	for range 5 {
		head := git(t, clone, "rev-parse", "HEAD")
		var shas []string
		var packs [][]byte
		for range 6 {
			write(t, clone, map[string]string{"a": fmt.Sprint(random.Int())})
			shas = append(shas, commit(t, clone, "x"))
			packs = append(packs, gitBytes(t, clone, shas[len(shas)-1]+"\n^"+head+"\n", "pack-objects", "--revs", "--stdout", "-q"))
			git(t, clone, "reset", "-q", "--hard", head)
		}
		answers := make(chan string)
		for i := range shas {
			go func() {
				req, _ := http.NewRequest(http.MethodPost, s.url+"/git/cluster.git/git-receive-pack",
					strings.NewReader(pkt(head+" "+shas[i]+" refs/heads/main\x00report-status\n")+"0000"+string(packs[i])))
				req.Header.Set("Content-Type", "application/x-git-receive-pack-request")
				answers <- answerOf(s, req)
			}()
		}
		won := 0
		for range shas {
			switch got := <-answers; {
			case strings.Contains(got, "ok refs/heads/main"):
				won++
			case !strings.Contains(got, "ng refs/heads/main fetch first"):
				t.Errorf("%q", got)
			}
		}
		if won != 1 {
			t.Errorf("%d won", won)
		}
		git(t, clone, "pull", "-q", "origin", "main")
	}
	s.verify(t)
}

// answerOf serves a request without a connection.
func answerOf(s *server, req *http.Request) string {
	req.SetBasicAuth("pusher", "token")
	w := &answer{header: make(http.Header)}
	withUser(s.Remote).ServeHTTP(w, req)
	return w.String()
}

// answer is a response in memory.
type answer struct {
	bytes.Buffer
	header http.Header
	status int
}

func (a *answer) Header() http.Header { return a.header }
func (a *answer) WriteHeader(code int) {
	if a.status == 0 {
		a.status = code
	}
}

func (a *answer) Write(b []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.Buffer.Write(b)
}
func (a *answer) Flush() {}
