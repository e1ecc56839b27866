package lock

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/clearsign"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	"github.com/ulikunitz/xz"
)

var today = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// mirror is an archive in memory, signed by a key of its own.
type mirror struct {
	key *openpgp.Entity

	mu    sync.Mutex
	files map[string][]byte
	asked map[string]int
	// broken are answered badly this many times, by path.
	broken map[string]int
}

func newMirror(t *testing.T) *mirror {
	t.Helper()
	return &mirror{key: newKey(t), files: map[string][]byte{}, asked: map[string]int{}, broken: map[string]int{}}
}

func newKey(t *testing.T) *openpgp.Entity {
	t.Helper()
	e, err := openpgp.NewEntity("Archive", "", "archive@example.com",
		&packet.Config{Algorithm: packet.PubKeyAlgoEdDSA, Time: func() time.Time { return today.AddDate(-1, 0, 0) }})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func (m *mirror) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	b, ok := m.files[r.URL.Path]
	m.asked[r.URL.Path]++
	bad := m.broken[r.URL.Path] > 0
	if bad {
		m.broken[r.URL.Path]--
	}
	m.mu.Unlock()
	switch {
	case !ok:
		http.NotFound(w, r)
	case bad:
		http.Error(w, "later", http.StatusServiceUnavailable)
	default:
		_, _ = w.Write(b)
	}
}

// serve starts the mirror on loopback.
func (m *mirror) serve(t *testing.T) (Mirrors, *http.Client) {
	t.Helper()
	s := httptest.NewServer(m)
	t.Cleanup(s.Close)
	return Mirrors{"debian": s.URL + "/debian", "debian-security": s.URL + "/sec"}, s.Client()
}

// stanza is one package of an index; the file is put into the pool.
func (m *mirror) stanza(root, name, version, depends string) string {
	body := []byte(name + version)
	at := fmt.Sprintf("pool/%s_%s.deb", name, version)
	m.files[root+"/"+at] = body
	return fmt.Sprintf("Package: %s\nVersion: %s\nArchitecture: amd64\nDepends: %s\nFilename: %s\nSize: %d\nSHA256: %x\n\n", name, version, depends, at, len(body), sha256.Sum256(body))
}

// suite publishes an index of a suite. change edits the text that is signed.
func (m *mirror) suite(t *testing.T, root, name, index string, byHash bool, change ...string) {
	t.Helper()
	var packed bytes.Buffer
	w, err := xz.NewWriter(&packed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte(index)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	h := sha256.Sum256(packed.Bytes())
	digest := hex.EncodeToString(h[:])
	release := fmt.Sprintf("Origin: Debian\nCodename: %s\nDate: Sat, 21 Nov 2026 02:10:46 UTC\nValid-Until: Sat, 28 Nov 2026 02:10:46 UTC\nSHA256:\n %s %d %s\n", name, digest, packed.Len(), indexPath)
	at := root + "/dists/" + name + "/" + indexPath
	if byHash {
		release = "Acquire-By-Hash: yes\n" + release
		at = root + "/dists/" + name + "/main/binary-amd64/by-hash/SHA256/" + digest
	}
	m.files[at] = packed.Bytes()
	release = strings.NewReplacer(change...).Replace(release)
	m.files[root+"/dists/"+name+"/InRelease"] = sign(t, m.key, release)
}

func sign(t *testing.T, key *openpgp.Entity, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := clearsign.Encode(&b, key.PrivateKey, &packet.Config{Time: func() time.Time { return today.AddDate(0, 0, -1) }})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// debian publishes three suites.
func (m *mirror) debian(t *testing.T) {
	m.suite(t, "/debian", "trixie", m.stanza("/debian", "kmod", "34.2-1", "libc6")+m.stanza("/debian", "meta", "1", "image-1")+
		m.stanza("/debian", "image-1", "1", "")+m.stanza("/debian", "other", "1", "")+"Package: broken entry that nobody wants\n\n", true)
	m.suite(t, "/sec", "trixie-security", m.stanza("/sec", "kmod", "34.2-1+deb13u1", "libc6"), true)
	m.suite(t, "/debian", "trixie-updates", m.stanza("/debian", "kmod", "34.2-1+deb13u0", "libc6"), false)
}
