package store

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/writ-os/writ/ci/freeport"
)

// network is what lies between members: a proxy before each of them, which
// knows from the address where a connection comes from, and lets through what
// it is told to.
type network struct {
	dir   string // of certificates
	doors []*door

	mu      sync.Mutex
	blocked map[[2]int]bool       // nothing passes from one to the other
	delay   map[int]time.Duration // of what goes to a member
	changed chan struct{}         // closed when one of them changes
	conns   map[net.Conn]struct{} // all that are open
	wg      sync.WaitGroup
}

// door is the way to one member.
type door struct {
	l      net.Listener // where the others dial
	listen string       // where the member listens
}

func newNetwork(t testing.TB, n int) *network {
	t.Helper()
	w := &network{
		dir: t.TempDir(), blocked: map[[2]int]bool{}, delay: map[int]time.Duration{},
		changed: make(chan struct{}), conns: map[net.Conn]struct{}{},
	}
	w.certify(t, "peer")
	for range n {
		w.addDoor(t)
	}
	t.Cleanup(w.close)
	return w
}

func (w *network) addDoor(t testing.TB) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	i, d := len(w.doors), &door{l: l, listen: freeport.Local(t)}
	w.doors = append(w.doors, d)
	w.wg.Go(func() { w.accept(d, i) })
}

// member is the configuration of one member.
func (w *network) member(i int) *Members {
	d := w.doors[i]
	return &Members{
		Name: fmt.Sprintf("m%d", i), Listen: d.listen, URL: "https://" + d.l.Addr().String(),
		TLS:      w.files("peer"),
		dialFrom: fmt.Sprintf("127.0.0.%d", 10+i),
	}
}

func (w *network) files(name string) PeerTLS {
	return PeerTLS{CertFile: filepath.Join(w.dir, name+".crt"), KeyFile: filepath.Join(w.dir, name+".key"), CAFile: filepath.Join(w.dir, name+"-ca.crt")}
}

func (w *network) accept(d *door, to int) {
	for {
		in, err := d.l.Accept()
		if err != nil {
			return
		}
		from := int(in.RemoteAddr().(*net.TCPAddr).IP.To4()[3]) - 10
		out, err := net.Dial("tcp", d.listen)
		if err != nil {
			in.Close()
			continue
		}
		w.mu.Lock()
		w.conns[in], w.conns[out] = struct{}{}, struct{}{}
		w.mu.Unlock()
		w.wg.Go(func() { w.pump(out, in, from, to) })
		w.wg.Go(func() { w.pump(in, out, to, from) })
	}
}

// pump moves bytes from a member to another, when it may.
func (w *network) pump(dst, src net.Conn, from, to int) {
	defer func() {
		dst.Close()
		src.Close()
		w.mu.Lock()
		delete(w.conns, dst)
		delete(w.conns, src)
		w.mu.Unlock()
	}()
	buf := make([]byte, 32<<10)
	for {
		n, err := src.Read(buf)
		if n > 0 {
			w.pass(from, to)
			if _, err := dst.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// pass waits until the way from one member to another is open.
func (w *network) pass(from, to int) {
	w.mu.Lock()
	wait := w.delay[to]
	for w.blocked[[2]int{from, to}] {
		changed := w.changed
		w.mu.Unlock()
		<-changed
		w.mu.Lock()
	}
	w.mu.Unlock()
	time.Sleep(wait)
}

func (w *network) change(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
	close(w.changed)
	w.changed = make(chan struct{})
}

// isolate keeps a member from all others: packets are lost without a word.
func (w *network) isolate(i int) {
	w.change(func() {
		for j := range w.doors {
			if j != i {
				w.blocked[[2]int{i, j}], w.blocked[[2]int{j, i}] = true, true
			}
		}
	})
}

// heal opens all ways. What was lost on the way is sent again, as TCP does.
func (w *network) heal() { w.change(func() { clear(w.blocked); clear(w.delay) }) }

// slow makes everything that goes to a member take its time.
func (w *network) slow(i int, d time.Duration) { w.change(func() { w.delay[i] = d }) }

// hangUp ends all connections.
func (w *network) hangUp() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.conns {
		c.Close()
	}
}

func (w *network) close() {
	for _, d := range w.doors {
		d.l.Close()
	}
	w.heal()
	w.hangUp()
	w.wg.Wait()
}

// certify writes an authority and a certificate that all members use.
func (w *network) certify(t testing.TB, name string) {
	t.Helper()
	files := w.files(name)
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name + " authority"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: ca.NotBefore, NotAfter: ca.NotAfter, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	caKey, leafKey := newKey(t), newKey(t)
	sign := func(file string, c *x509.Certificate, key *ecdsa.PrivateKey) {
		der, err := x509.CreateCertificate(rand.Reader, c, ca, key.Public(), caKey)
		if err != nil {
			t.Fatal(err)
		}
		writePEM(t, file, "CERTIFICATE", der)
	}
	sign(files.CAFile, ca, caKey)
	sign(files.CertFile, leaf, leafKey)
	der, err := x509.MarshalECPrivateKey(leafKey)
	if err != nil {
		t.Fatal(err)
	}
	writePEM(t, files.KeyFile, "EC PRIVATE KEY", der)
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func writePEM(t testing.TB, file, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}
