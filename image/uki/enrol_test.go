package uki

import (
	"bytes"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func enrolled(t *testing.T) (platform, exchange, db Pair, e *Enrolment) {
	t.Helper()
	now := time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)
	for name, p := range map[string]*Pair{"PK": &platform, "KEK": &exchange, "db": &db} {
		var err error
		if *p, err = NewPair(name, now); err != nil {
			t.Fatal(err)
		}
	}
	e, err := Enrol(platform, exchange, []*x509.Certificate{db.Certificate, exchange.Certificate}, now)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := Enrol(platform, exchange, []*x509.Certificate{db.Certificate, exchange.Certificate}, now); err != nil || !bytes.Equal(again.DB, e.DB) {
		t.Errorf("enrolled twice, it is not the same: %v", err)
	}
	return platform, exchange, db, e
}

// parts takes a variable apart: what is signed, by what, and the data.
func parts(t *testing.T, name string, vendor [16]byte, b []byte) (signed, signature, data []byte) {
	t.Helper()
	if err := CheckEnrolment(b); err != nil {
		t.Fatal(err)
	}
	n := le.Uint32(b[16:])
	signature, data = b[16+signerKind:16+n], b[16+n:]
	for _, c := range name {
		signed = append(signed, byte(c), 0)
	}
	signed = append(le.AppendUint32(append(signed, vendor[:]...), 0x27), b[:16]...)
	return append(signed, data...), signature, data
}

func TestEnrol(t *testing.T) {
	_, _, db, e := enrolled(t)
	_, signature, data := parts(t, "db", guidImages, e.DB)
	if want := []byte{0xea, 0x07, 2, 3, 4, 5, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0}; !bytes.Equal(e.DB[:16], want) {
		t.Errorf("the time is %x", e.DB[:16])
	}
	// Firmware looks for the hash at this place, before it reads anything.
	if oid, _ := asn1.Marshal(oidSHA256); !bytes.Equal(signature[13:13+9], oid[2:]) {
		t.Errorf("the signature begins with %x", signature[:24])
	}
	if got := int(le.Uint32(data[16:])); !bytes.Equal(data[44:got], db.Certificate.Raw) {
		t.Error("the first list has not the certificate")
	}
	for name, b := range map[string][]byte{"empty": nil, "a certificate": db.Certificate.Raw, "cut off": e.PK[:600], "without data": e.PK[:16+le.Uint32(e.PK[16:])], "too long": make([]byte, maxEnrolment+1)} {
		if CheckEnrolment(b) == nil {
			t.Errorf("%s is taken for a variable", name)
		}
	}
	other, err := NewPair("other", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if !e.Starts(db.Certificate) || e.Starts(other.Certificate) || (&Enrolment{DB: e.PK}).Starts(db.Certificate) {
		t.Error("what it starts is not what is signed by db")
	}
	if _, err := Enrol(Pair{other.Key, db.Certificate}, db, certs(db.Certificate), time.Now()); err == nil || !strings.Contains(err.Error(), "for another key") {
		t.Errorf("enrolled by another key: %v", err)
	}
	if _, err := Enrol(other, db, nil, time.Now()); err == nil {
		t.Error("enrolled a machine that starts nothing")
	}
}

// Two other implementations agree: sbsiglist on the lists, openssl on the
// signatures.
func TestEnrolmentTools(t *testing.T) {
	for _, tool := range []string{"sbsiglist", "openssl"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed", tool)
		}
	}
	platform, exchange, _, e := enrolled(t)
	dir := t.TempDir()
	write := func(name string, b []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	_, _, data := parts(t, "PK", guidGlobal, e.PK)
	list := filepath.Join(dir, "list")
	owner := data[28:44]
	text := strings.ToLower(guidText([16]byte(owner)))
	if out, err := exec.Command("sbsiglist", "--owner", text, "--type", "x509", "--output", list, write("cert", platform.Certificate.Raw)).CombinedOutput(); err != nil {
		t.Fatalf("sbsiglist: %v\n%s", err, out)
	}
	if theirs, err := os.ReadFile(list); err != nil || !bytes.Equal(theirs, data) {
		t.Errorf("sbsiglist writes another list: %v\n%x\n%x", err, theirs, data)
	}
	for _, v := range []struct {
		name   string
		vendor [16]byte
		b      []byte
		by     Pair
	}{{"PK", guidGlobal, e.PK, platform}, {"KEK", guidGlobal, e.KEK, platform}, {"db", guidImages, e.DB, exchange}} {
		signed, signature, _ := parts(t, v.name, v.vendor, v.b)
		wrapped, err := asn1.Marshal(contentInfo{Type: oidSignedData, Content: explicit(signature)})
		if err != nil {
			t.Fatal(err)
		}
		verify := func(content []byte) ([]byte, error) {
			return exec.Command("openssl", "smime", "-verify", "-binary", "-inform", "DER", "-in", write("sig", wrapped), "-content", write("content", content), "-noverify", "-nointern",
				"-certfile", write("pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: v.by.Certificate.Raw})), "-out", os.DevNull).CombinedOutput()
		}
		if out, err := verify(signed); err != nil {
			t.Errorf("%s: openssl: %v\n%s", v.name, err, out)
		}
		if _, err := verify(append(bytes.Clone(signed), 0)); err == nil {
			t.Errorf("%s: openssl verifies anything", v.name)
		}
	}
}

func guidText(g [16]byte) string {
	hex := func(b ...byte) string {
		const digits = "0123456789abcdef"
		var s []byte
		for _, c := range b {
			s = append(s, digits[c>>4], digits[c&15])
		}
		return string(s)
	}
	return hex(g[3], g[2], g[1], g[0]) + "-" + hex(g[5], g[4]) + "-" + hex(g[7], g[6]) + "-" + hex(g[8:10]...) + "-" + hex(g[10:]...)
}

func FuzzEnrolment(f *testing.F) {
	_, cert := keyPair(f, "db")
	key := rsaKey()
	e, err := Enrol(Pair{key, cert}, Pair{key, cert}, certs(cert), time.Unix(1e9, 0))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(e.DB)
	f.Fuzz(func(t *testing.T, b []byte) {
		if ok := (&Enrolment{DB: b}).Starts(cert); ok && !bytes.Contains(b, cert.RawSubject) {
			t.Error("starts what it does not name")
		}
	})
}
