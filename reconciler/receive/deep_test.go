package receive

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/writ-os/writ/reconciler/sandbox"
	"github.com/writ-os/writ/reconciler/source/pack"
)

// packer makes packs as nobody's git does.
type packer struct {
	bytes.Buffer
	count uint32
	z     *zlib.Writer
}

func newPacker() *packer {
	p := &packer{}
	p.WriteString("PACK\x00\x00\x00\x02\x00\x00\x00\x00")
	return p
}

func (p *packer) add(kind plumbing.ObjectType, data []byte) plumbing.Hash {
	p.count++
	n := len(data)
	c := byte(kind)<<4 | byte(n&15)
	for n >>= 4; n > 0; n >>= 7 {
		p.WriteByte(c | 0x80)
		c = byte(n & 0x7f)
	}
	p.WriteByte(c)
	if p.z == nil { // one writer costs a megabyte
		p.z, _ = zlib.NewWriterLevel(p, zlib.NoCompression)
	}
	p.z.Reset(p)
	_, _ = p.z.Write(data)
	_ = p.z.Close()
	return plumbing.ComputeHash(kind, data)
}

func (p *packer) done() []byte {
	b := p.Bytes()
	binary.BigEndian.PutUint32(b[8:], p.count)
	sum := sha1.Sum(b)
	return append(b, sum[:]...)
}

func (p *packer) commit(tree plumbing.Hash) plumbing.Hash {
	return p.add(plumbing.CommitObject, fmt.Appendf(nil, "tree %s\nauthor A <a@example.org> 1700000000 +0000\ncommitter A <a@example.org> 1700000000 +0000\n\nx\n", tree))
}

func entryOf(mode, name string, h plumbing.Hash) []byte {
	return append([]byte(mode+" "+name+"\x00"), h[:]...)
}

// deep is a pack with folders in each other, and its commit.
func deep(depth int, name string) (commit string, pack []byte) {
	p := newPacker()
	h := p.add(plumbing.BlobObject, []byte("x"))
	h = p.add(plumbing.TreeObject, entryOf("100644", "f", h))
	for range depth - 1 {
		h = p.add(plumbing.TreeObject, entryOf("40000", name, h))
	}
	return p.commit(h).String(), p.done()
}

// Folders lie in each other as deep as they are followed, and no deeper: neither at
// once, nor push by push.
func TestDepthIsBounded(t *testing.T) {
	s, _ := seeded(t)
	for _, tt := range []struct {
		depth int
		name  string
		why   string
	}{{maxDepth, "d", ""}, {maxDepth + 1, "d", "more than 100 deep"}, {5000, "d", "more than 100 deep"}, {16, strings.Repeat("n", 255), ""}, {18, strings.Repeat("n", 255), "bytes: systems take 4096"}} {
		sha, pack := deep(tt.depth, tt.name)
		got := post(t, s, receivePack, pkt(zeroSHA+" "+sha+" refs/heads/d"+strconv.Itoa(tt.depth)+"\x00report-status\n")+"0000"+string(pack), nil)
		if tt.why == "" && !strings.Contains(got, "ok refs/heads/") || tt.why != "" && !strings.Contains(got, tt.why) {
			t.Errorf("%d: %q", tt.depth, got)
		}
	}
	// One more around what is there.
	p := newPacker()
	top, _ := deep(maxDepth, "d")
	tree := plumbing.NewHash(git(t, s.RepoDir("cluster"), "rev-parse", top+"^{tree}"))
	sha := p.commit(p.add(plumbing.TreeObject, entryOf("40000", "d", tree)))
	if got := pushed(t, s, sha.String(), p.done()); !strings.Contains(got, "more than 100 deep") {
		t.Errorf("push by push: %q", got)
	}
	s.verify(t)
}

// million is a pack of 37 MB: folders a million deep.
func million(t *testing.T, n int) (sha, path string) {
	t.Helper()
	sha, b := deep(n, "d")
	path = filepath.Join(t.TempDir(), "pack")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d folders are %d MB", n, len(b)>>20)
	return sha, path
}

// A repository that has such folders since before there were bounds is opened,
// listed, cloned, cleaned and pushed to, and the process lives on.
func TestDeepRepositoryIsServed(t *testing.T) {
	depth := 50_000
	if testing.Short() {
		depth = 5000
	}
	s, clone := seeded(t)
	sha, path := million(t, depth)
	q, err := s.repos["cluster"].quarantine("refs/heads/main")
	if err != nil {
		t.Fatal(err)
	}
	in, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	tmp := filepath.Join(q.dir, "x")
	if _, err := pack.Spool(tmp, in, s.limits()); err != nil {
		t.Fatal(err)
	}
	if q.base, _, err = pack.Store(tmp, q.dir, s.limits()); err != nil {
		t.Fatal(err)
	}
	if err := q.promote(); err != nil {
		t.Fatal(err)
	}
	_ = q.close()
	if err := s.repos["cluster"].writeRef("refs/heads/deep", sha); err != nil {
		t.Fatal(err)
	}
	if err := s.Open(); err != nil {
		t.Fatal(err)
	}
	got := post(t, s, uploadPack, pkt("want "+sha+" ofs-delta\n")+"0000"+pkt("done\n"), nil)
	if !strings.HasPrefix(got, "0008NAK\nPACK") || binary.BigEndian.Uint32([]byte(got[16:])) != uint32(depth+2) {
		t.Errorf("fetch: %.40q", got)
	}
	s.gc(t)
	// Who may change a folder only cannot build on it, and hears why.
	s.cfg.Rules = func(string) []Rule { return []Rule{{Users: []string{"pusher"}, Paths: []string{"web"}}} }
	p := newPacker()
	next := p.commit(p.add(plumbing.TreeObject, entryOf("100644", "f", plumbing.NewHash(git(t, clone, "rev-parse", "HEAD:README.md")))))
	refused := post(t, s, receivePack, pkt(sha+" "+next.String()+" refs/heads/deep\x00report-status\n")+"0000"+string(p.done()), nil)
	if !strings.Contains(refused, "ng refs/heads/deep folders lie in each other") {
		t.Errorf("push: %q", refused)
	}
}

// maxRSS is what a push may cost the server and its child, and all of them, in bytes.
const maxRSS = 256 << 20

// serveHostile serves one repository in a process of its own and prints what it has
// cost when its input ends.
func serveHostile(dir string) {
	box := sandbox.New(sandbox.Config{})
	r := New(Config{Dir: dir, Names: []string{"cluster"}, Sandbox: box})
	if err := r.Open(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	ts := httptest.NewServer(withUser(r))
	fmt.Println(ts.URL)
	_, _ = io.Copy(io.Discard, os.Stdin)
	children := int64(0) // which wait for more to do
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range all {
		if status(p, "PPid") == int64(os.Getpid()) {
			children += status(p, "VmHWM")
		}
	}
	fmt.Println(status("/proc/self", "VmHWM"), children)
	box.Close()
	os.Exit(0)
}

// status is a number of /proc/<pid>/status. What getrusage says counts what the
// process was before it became another program.
func status(process, name string) int64 {
	b, _ := os.ReadFile(filepath.Join(process, "status")) // it may have ended
	for line := range strings.Lines(string(b)) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			n, _ := strconv.ParseInt(strings.Fields(value)[0], 10, 64)
			return n
		}
	}
	return 0
}

// hostileServer starts serveHostile and returns its URL, and what stops it and says
// how many bytes of memory it and its child have had at most.
func hostileServer(t *testing.T, dir string) (url string, peak func() (own, child int64)) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), "RECEIVE_HOSTILE="+dir)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fscanln(out, &url); err != nil {
		t.Fatal(err)
	}
	return url, func() (own, child int64) {
		t.Helper()
		_ = in.Close()
		if _, err := fmt.Fscanln(out, &own, &child); err != nil {
			t.Fatalf("the server has not lived: %v", err)
		}
		if err := cmd.Wait(); err != nil {
			t.Fatal(err)
		}
		return own << 10, child << 10
	}
}

// pushFile pushes a pack from a file.
func pushFile(t *testing.T, url, sha, path string) string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/git/cluster.git/git-receive-pack",
		io.MultiReader(strings.NewReader(pkt(zeroSHA+" "+sha+" refs/heads/evil\x00report-status\n")+"0000"), f))
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth("pusher", "token")
	req.Header.Set("Content-Type", "application/x-git-receive-pack-request")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	http.DefaultClient.CloseIdleConnections()
	return string(b)
}

// Packs that are small and would be large are refused for little memory: folders in
// each other, as many as there may be and more; files without content; a tree of
// very many entries.
func TestHostilePacksCostLittle(t *testing.T) {
	if testing.Short() || raceEnabled {
		t.Skip("makes packs of 37 MB, and measures memory: make test runs it by itself")
	}
	empty := func(n int) (string, []byte) { // an empty file has one hash: they are told apart by their content
		p := newPacker()
		for i := range n {
			p.add(plumbing.BlobObject, binary.AppendUvarint(nil, uint64(i)))
		}
		return p.commit(p.add(plumbing.TreeObject, nil)).String(), p.done()
	}
	wide := func(n int) (string, []byte) {
		p := newPacker()
		h := p.add(plumbing.BlobObject, nil)
		var b bytes.Buffer
		for i := range n {
			b.Write(entryOf("100644", fmt.Sprintf("%08d", i), h))
		}
		return p.commit(p.add(plumbing.TreeObject, b.Bytes())).String(), p.done()
	}
	for _, tt := range []struct {
		name string
		make func() (string, []byte)
		want string
	}{
		{"a million deep", func() (string, []byte) { return deep(1_000_000, "d") }, "too large: 1000002 objects at once"},
		{"deep", func() (string, []byte) { return deep(499_000, "d") }, "folders lie in each other more than 100 deep"},
		{"two million files", func() (string, []byte) { return empty(1_500_000) }, "objects at once"},
		{"files", func() (string, []byte) { return empty(499_000) }, "ok refs/heads/evil"},
		{"wide", func() (string, []byte) { return wide(150_000) }, "a folder may have 100000"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sha, b := tt.make()
			path := filepath.Join(t.TempDir(), "pack")
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
			size := len(b)
			url, peak := hostileServer(t, t.TempDir())
			got := pushFile(t, url, sha, path)
			own, child := peak()
			used := own + child
			t.Logf("%d KiB sent, at most %d MiB in the server and %d MiB in its child", size>>10, own>>20, child>>20)
			if !strings.Contains(got, tt.want) {
				t.Errorf("%.300q", got)
			}
			if used > maxRSS {
				t.Errorf("it cost %d MiB", used>>20)
			}
		})
	}
}
